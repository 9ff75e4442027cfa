"""inner_loops.py ARTIFACT TYPE: checks the machine code of an artifact for several CPUs.

TABLE has the inner loops by their product instructions, and how many instructions the
longest loop with so many has. More are a regression, and so is a loop that is gone or
new; who finds fewer writes them down. Changes of LLVM's own are within MARGIN.
"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import loops  # noqa: E402

MARGIN = 1.05
FEWEST = 4  # of the product instructions of a loop that counts
# {type: {CPU: {products of a loop: instructions}}} of Llama-3.2-1B.
TABLE = {
    "bf16": {
        "sapphirerapids": {
            "4 fma": 15, "9 fma": 32, "32 fma": 107, "128 fma": 244, "4 tile": 32,
        },
        "x86-64-v3": {
            "4 fma": 15, "8 fma": 18, "9 fma": 54, "12 fma": 32, "32 fma": 69,
            "64 fma": 259,
        },
        "x86-64-v4": {
            "4 fma": 15, "9 fma": 40, "16 fma": 30, "24 fma": 37, "32 fma": 63,
            "64 fma": 259, "128 fma": 244,
        },
        "znver5": {
            "16 dot": 30, "24 dot": 38, "64 dot": 148, "4 fma": 15, "9 fma": 32,
            "32 fma": 63, "128 fma": 244,
        },
    },
    "f32": {
        "sapphirerapids": {
            "4 fma": 11, "9 fma": 31, "16 fma": 30, "24 fma": 40, "32 fma": 71,
            "128 fma": 228,
        },
        "x86-64-v3": {
            "4 fma": 11, "8 fma": 20, "9 fma": 42, "12 fma": 32, "32 fma": 63,
            "64 fma": 134,
        },
        "x86-64-v4": {
            "4 fma": 11, "9 fma": 33, "16 fma": 30, "24 fma": 40, "32 fma": 59,
            "64 fma": 131, "128 fma": 228,
        },
        "znver5": {
            "4 fma": 11, "9 fma": 31, "16 fma": 30, "24 fma": 40, "32 fma": 59,
            "64 fma": 131, "128 fma": 228,
        },
    },
    "q8_0": {
        "sapphirerapids": {
            "8 dot": 14, "9 dot": 31, "4 fma": 15, "9 fma": 32, "17 fma": 61,
            "32 fma": 63, "100 fma": 586, "128 fma": 244, "4 tile": 32,
        },
        "x86-64-v3": {
            "8 dot": 32, "24 dot": 97, "34 dot": 124, "68 dot": 208, "4 fma": 15,
            "8 fma": 18, "9 fma": 54, "12 fma": 23, "32 fma": 69, "64 fma": 148,
        },
        "x86-64-v4": {
            "8 dot": 30, "24 dot": 97, "102 dot": 321, "204 dot": 650, "4 fma": 15,
            "9 fma": 40, "16 fma": 27, "24 fma": 37, "32 fma": 63, "128 fma": 244,
        },
        "znver5": {
            "8 dot": 14, "9 dot": 31, "16 dot": 28, "24 dot": 38, "54 dot": 133,
            "108 dot": 220, "4 fma": 15, "8 fma": 72, "9 fma": 32, "32 fma": 63,
            "128 fma": 244,
        },
    },
    "q4_0": {
        "sapphirerapids": {
            "8 dot": 14, "9 dot": 31, "4 fma": 15, "9 fma": 32, "17 fma": 61,
            "32 fma": 63, "112 fma": 705, "128 fma": 244, "4 tile": 32,
        },
        "x86-64-v3": {
            "8 dot": 31, "10 dot": 42, "24 dot": 92, "60 dot": 212, "4 fma": 15,
            "8 fma": 18, "9 fma": 54, "12 fma": 23, "32 fma": 69, "64 fma": 148,
        },
        "x86-64-v4": {
            "8 dot": 30, "10 dot": 41, "24 dot": 89, "60 dot": 183, "120 dot": 379,
            "4 fma": 15, "9 fma": 40, "16 fma": 27, "24 fma": 37, "32 fma": 63,
            "128 fma": 244,
        },
        "znver5": {
            "8 dot": 14, "9 dot": 31, "16 dot": 28, "24 dot": 38, "54 dot": 133,
            "108 dot": 220, "4 fma": 15, "8 fma": 88, "9 fma": 32, "32 fma": 63,
            "128 fma": 244,
        },
    },
    "fp8": {
        "sapphirerapids": {
            "4 fma": 15, "9 fma": 32, "32 fma": 613, "64 fma": 357, "128 fma": 244,
            "4 tile": 32,
        },
        "x86-64-v3": {
            "4 fma": 15, "8 fma": 18, "9 fma": 54, "12 fma": 263, "16 fma": 81,
            "32 fma": 69, "64 fma": 148,
        },
        "x86-64-v4": {
            "4 fma": 145, "8 fma": 49, "9 fma": 40, "16 fma": 30, "24 fma": 37,
            "32 fma": 63, "128 fma": 244,
        },
        "znver5": {
            "16 dot": 30, "24 dot": 38, "4 fma": 81, "8 fma": 49, "9 fma": 32,
            "32 fma": 63, "128 fma": 244,
        },
    },
}


def counts(artifact):
    """{CPU: {products, such as 12 fma: the most instructions of a loop with so many}}."""
    found = {}
    for name, body in loops.functions(artifact):
        cpu = name.split(".")[-1]
        for loop in loops.innermost(body):
            kinds = loops.products(loop)
            if kinds.total() >= FEWEST:
                products = f"{kinds.total()} {kinds.most_common(1)[0][0]}"
                most = found.setdefault(cpu, {})
                most[products] = max(most.get(products, 0), len(loop))
    return found


def main():
    artifact, kind = sys.argv[1:]
    found, known = counts(artifact), TABLE.get(kind, {})
    wrong = []
    for cpu in sorted(known | found):
        here, before = found.get(cpu, {}), known.get(cpu, {})
        for products in sorted(here | before):
            now, then = here.get(products), before.get(products)
            if now is None or then is None or now > then * MARGIN:
                wrong.append(f"{kind}, {cpu}: {products}: {now} instructions, was {then}")
    if wrong:
        rows = {cpu: dict(sorted(most.items())) for cpu, most in sorted(found.items())}
        sys.exit("\n".join([*wrong, f"found: {kind!r}: {rows}"]))


main()

"""tiny.py BIN SCRATCH MODEL [emulated]: the model of examples/MODEL writes stories.

From the same ids the greedy text is that of transformers, and the logits meet the bar of
bf16. Sampled text has sentences in the words of the model's grammar, and is the same for
the same seed with any number of threads. On the emulated CUDA device, which is slow, one
story is decoded, and the others are only read.
"""

import itertools
import json
import re
import sys

import numpy as np

from harness import HERE, Tools, check, check_as_faithful

EXAMPLES = HERE.parent.parent / "examples"
MODEL = EXAMPLES / sys.argv[3]


def tell(tools, artifact, case, *flags):
    """Greedy, to the end of the story or of the context."""
    room = 256 - len(case["ids"])
    story = [f"--weights={MODEL}", f"--prompt={case['prompt']}", "--temperature=0"]
    return tools.run(artifact, *story, f"--max-tokens={room}", *flags).ok()


def check_ids(tools, artifact, case, *flags):
    got = tell(tools, artifact, case, "--print-ids", *flags).ids()
    check(got == case["greedy"], f"{got}, expected {case['greedy']}")


def check_text(tools, artifact, case, *flags):
    text = tell(tools, artifact, case, *flags).text.strip()
    check(text == case["text"], f"{text!r}, expected {case['text']!r}")


def check_read(tools, artifact, case, *flags):
    """At each token of the continuation, the next token has the largest logit."""
    ids = case["ids"] + case["greedy"][:-1]
    logits = tools.logits(artifact, ids, f"--weights={MODEL}", *flags)
    got = logits[len(case["ids"]) - 1 :].argmax(-1).tolist()
    check(got == case["greedy"], f"read: {got}, expected {case['greedy']}")


def check_logits(tools, artifact, expected, *flags):
    with np.load(MODEL / "expected.npz") as arrays:
        exact, bits = arrays["f32"], arrays["bf16"]
    peer = (bits.astype(np.uint32) << 16).view(np.float32)
    ids = expected["prompts"][0]["ids"]
    got = tools.logits(artifact, ids, f"--weights={MODEL}", *flags)
    check_as_faithful(exact, peer, got, "logits")


def check_sampled(tools, artifact):
    """With generation_config.json's own temperature and top-p."""
    sys.path.insert(0, str(EXAMPLES / "tiny"))
    import stories

    read = " ".join(itertools.islice(stories.stories(1), 3000))
    words = set(re.findall(r"\w+", read))
    texts = []
    for seed in range(1, 9):
        flags = [f"--weights={MODEL}", "--prompt=Once", "--max-tokens=240"]
        flags += [f"--seed={seed}"]
        run = tools.run(artifact, *flags, "--threads=1").ok()
        again = tools.run(artifact, *flags, "--threads=2").ok()
        check(run.out == again.out, f"seed {seed}, 1 and 2 threads: two texts")
        texts.append(run.text.strip())
        strange = set(re.findall(r"\w+", run.text)) - words
        check(not strange, f"seed {seed}: {strange} in {run.text!r}")
        check(texts[-1][-1] in '."', f"seed {seed}: no end: {run.text!r}")
    check(len(set(texts)) >= 6, f"8 seeds give {len(set(texts))} texts")


def main():
    tools = Tools(*sys.argv[1:3])
    expected = json.loads((MODEL / "expected.json").read_text())
    artifact = tools.compile(MODEL / "config.json", "--target=cpu,cuda")
    first, *others = expected["prompts"]
    if sys.argv[4:] == ["emulated"]:
        device = "--device=emulated"
        check_ids(tools, artifact, first, device)
        for case in others:
            check_read(tools, artifact, case, device)
        return check_logits(tools, artifact, expected, device)
    for case in expected["prompts"]:
        check_ids(tools, artifact, case, "--device=cpu")
        check_text(tools, artifact, case, "--device=cpu")
    check_logits(tools, artifact, expected, "--device=cpu")
    check_sampled(tools, tools.compile(MODEL / "config.json"))


main()

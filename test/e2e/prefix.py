"""prefix.py BIN SCRATCH DEVICE NAME...: embeddings in front of a prompt.

Rows of a model's own table of embeddings are fed as embeddings in place of their ids. The
ids that follow have the same logits as after these ids, bit by bit, and the logits are
those of transformers. The prefix is longer than a chunk. The tools read the embeddings
from a file and give the same logits.
"""

import json
import sys

import numpy as np

import cases
import weights
from capi import Model
from harness import Golden, Tools, check, some

CHUNK = 64
PREFIX = 100  # positions


def table_of(golden, config):
    """The rows that --random-weights draws, as the model stores them."""
    shape = (config["vocab_size"], config["hidden_size"])
    drawn = weights.values(golden.seed, "model.embed_tokens.weight", shape)
    return weights.rounded(drawn, golden.name.split("-")[0])


def check_session(golden, model, rows):
    """Returns the logits of the ids after the prefix."""
    ids, embedded = model.session(), model.session()
    for session in (ids, embedded):
        session.expect_prompt(len(golden.ids))
    whole = ids.feed(golden.ids[:PREFIX]), ids.feed(golden.ids[PREFIX:])
    problem = embedded.feed_embeddings(rows)
    check(problem is None, f"{golden.name}: {problem}")
    got = embedded.feed(golden.ids[PREFIX:])
    golden.check(np.concatenate([whole[0], got]), golden.name)
    check((golden.rows >= PREFIX).any(), "the golden has rows behind it")
    same = np.array_equal(whole[1], got)
    check(same, f"{golden.name}: max |d| {np.abs(whole[1] - got).max()}")
    embedded.rewind(0)
    embedded.expect_prompt(len(golden.ids))
    again = embedded.feed(golden.ids[:PREFIX])
    check(np.array_equal(whole[0], again), "the table is the model's again")
    return got


def check_tool(tools, golden, artifact, rows, wanted, flags):
    """cria-run, from files of every type that holds the rows exactly."""
    file = tools.scratch / "rows.npy"
    for dtype in ("<f4", "<f8") + ("<f2",) * golden.name.startswith("f16"):
        np.save(file, rows.astype(dtype))
        prefix = [f"--prefix-embeddings={file}", *flags]
        got = tools.logits(artifact, golden.ids[PREFIX:], *prefix)
        check(np.array_equal(wanted, got), f"{golden.name}: {dtype}")


def check_greedy(tools, golden, artifact, rows, flags):
    start, file = golden.start, tools.scratch / "few.npy"
    np.save(file, rows[:3])
    prefix = [f"--prefix-embeddings={file}", *flags]
    got = tools.greedy(artifact, start[3:], cases.GREEDY, *prefix)
    check(got == golden.greedy, f"{golden.name}: {got} != {golden.greedy}")


def check_refusals(tools, artifact, rows, flags):
    def refused(array, why, *more):
        file = tools.scratch / "bad.npy"
        np.save(file, array)
        prefix = [f"--prefix-embeddings={file}", *flags, *more]
        run = tools.run(artifact, "--ids=1,2", *prefix)
        check(run.status == 1 and run.errors.count("\n") == 1, run)
        check(why.format(file) in run.errors, f"{run}\nexpected {why}")

    width = rows.shape[1]
    refused(rows[:, 1:], f"{{}}: embeddings of {width - 1} numbers, expected")
    refused(rows[:0], "{}: no embeddings, expected at least one")
    refused(rows * np.inf, "{}: embedding 0, column 0 is")
    refused(rows.T, "{}: 'fortran_order' is 'True', expected False")
    refused(rows.astype("<i4"), "{}: 'descr' is '<i4', expected")
    refused(np.repeat(rows, 9, 0), "{}: shape [900, ")
    refused(rows, "prompt's 102 tokens and --max-tokens=411", "--max-tokens=411")


def main():
    tools, device = Tools(*sys.argv[1:3]), sys.argv[3]
    for name in some(sys.argv[4:], 4):
        golden = Golden(name)
        flags = ["--target=cpu,cuda", "--max-seq=512", f"--chunk={CHUNK}"]
        artifact = tools.compile(golden.config, *flags, out=f"{name}.cria")
        config = json.loads(golden.config.read_text())
        rows = table_of(golden, config)[golden.ids[:PREFIX]]
        vocab = config["vocab_size"]
        model = Model(tools, artifact, golden.seed, vocab, device)
        got = check_session(golden, model, rows)
        run = [f"--random-weights={golden.seed}", f"--device={device}"]
        check_tool(tools, golden, artifact, rows, got, run)
        if golden.stored is None:
            check_greedy(tools, golden, artifact, rows, run)
    check_refusals(tools, artifact, rows, run)


main()

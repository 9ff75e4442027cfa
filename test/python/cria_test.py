"""cria_test.py BIN SCRATCH: the package cria with the shipped model.

Its text is that of transformers (examples/tiny/expected.json) and of cria-run.
Its errors are exceptions with a status, Ctrl-C leaves objects that work, and objects
may be dropped in any order.
"""

import asyncio
import functools
import gc
import inspect
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import warnings

import cria
import numpy as np
from cria import _native

import harness
import lora

BIN, SCRATCH = map(pathlib.Path, sys.argv[1:3])
TINY = harness.HERE.parent.parent / "examples" / "tiny"
EXPECTED = json.loads((TINY / "expected.json").read_text())["prompts"]
IDS = EXPECTED[0]["ids"]
os.environ["CRIA_COMPILE"] = str(BIN / "cria-compile")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: Once{% endif %}"
)


def setUpModule():
    global tools, path, model
    # A shell starts what runs in the background with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tools = harness.Tools(BIN, SCRATCH / "tools")
    path = tools.scratch / "tiny.cria"
    cria.compile(
        TINY / "config.json", target=["cpu", "cuda"], chip="sm_80", out=path, chunk=8
    )
    model = cria.load(path, weights=TINY, device="cpu")


def with_template():
    """The folder of the model, with a chat template."""
    folder = tools.scratch / "chat"
    if not folder.exists():
        folder.mkdir()
        for file in TINY.iterdir():
            (folder / file.name).symlink_to(file)
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@functools.cache
def long_artifact():
    """For texts of 60,000 ids, of a config that is in no file, with weights in blocks."""
    config = json.loads((TINY / "config.json").read_text())
    config |= {"max_position_embeddings": 60000}
    out, cpu = tools.scratch / "long.cria", "x86-64-v3"
    return cria.compile(config, out=out, max_seq=60000, cpu=cpu, quantize="q8_0")


class Generates(unittest.TestCase):
    def test_as_transformers(self):
        for case in EXPECTED:
            for prompt in (case["prompt"], case["ids"], np.array(case["ids"])):
                made = model.generate(prompt, temperature=0)
                self.assertEqual(made.ids, case["greedy"])
                self.assertEqual(made.prompt_ids, case["ids"])
                self.assertEqual(case["prompt"] + made.text, case["text"].strip())
                self.assertTrue(made.ended)

    def test_in_a_stream(self):
        whole = model.generate("Once", seed=5)
        tokens = list(model.generate("Once", seed=5, stream=True))
        self.assertEqual([token.id for token in tokens], whole.ids)
        self.assertEqual("".join(token.text for token in tokens), whole.text)

    def test_as_many_as_the_checkpoint_says(self):
        folder = tools.scratch / "limits"
        folder.mkdir()
        for file in TINY.iterdir():
            if file.name != "generation_config.json":
                (folder / file.name).symlink_to(file)
        for limits, count in (({"max_new_tokens": 7}, 7), ({"max_length": 19}, 5)):
            (folder / "generation_config.json").write_text(json.dumps(limits))
            limited = cria.load(path, weights=folder, device="cpu")
            self.assertEqual(limited.generate(IDS).ids, EXPECTED[0]["greedy"][:count])
            self.assertEqual(len(limited.generate(IDS, max_tokens=9).ids), 9)

    def test_from_a_state_that_was_saved(self):
        case = EXPECTED[1]
        with model.session() as session, model.session() as other:
            session.feed(case["ids"][:9], "none")
            state = session.save()
            other.restore(state)
            with other.copy() as third:
                for each in (session, other, third):
                    made = each.generate(case["ids"][9:], temperature=0)
                    self.assertEqual(made.ids, case["greedy"])
            with self.assertRaises(cria.Error):
                other.restore(state[:-1])

    def test_as_many_as_are_wanted(self):
        made = model.generate("Once", max_tokens=3)
        self.assertEqual((len(made.ids), made.ended), (3, False))
        self.assertEqual(model.generate("Once", max_tokens=0).ids, [])

    def test_in_one_session_after_another(self):
        first, second = EXPECTED[0]["ids"][:5], EXPECTED[0]["ids"][5:]
        with model.session() as session:
            session.feed(first, "none")
            made = session.generate(second, temperature=0)
            self.assertEqual(made.ids, EXPECTED[0]["greedy"])
            session.rewind(5)
            again = session.generate(second, temperature=0)
            self.assertEqual(again, made)


class Stops(unittest.TestCase):
    PROMPT = EXPECTED[0]["prompt"]

    def setUp(self):
        self.whole = model.generate(self.PROMPT, temperature=0)
        self.text = self.whole.text[: len(self.whole.text) // 2]
        self.stop = self.text[-5:]  # begins and ends anywhere in tokens
        self.text = self.whole.text[: self.whole.text.index(self.stop)]

    def test_a_text_ends_before_a_string(self):
        for stop in (self.stop, ["nowhere", self.stop]):
            made = model.generate(self.PROMPT, temperature=0, stop=stop)
            self.assertEqual(made.text, self.text)
            self.assertTrue(made.ended)
            self.assertEqual(made.ids, self.whole.ids[: len(made.ids)])
            decoded = model.tokenizer.decode(made.ids)
            self.assertIn(self.stop, decoded)
            self.assertNotIn(self.stop, model.tokenizer.decode(made.ids[:-1]))
        stream = model.generate(self.PROMPT, temperature=0, stop=stop, stream=True)
        self.assertEqual("".join(token.text for token in stream), self.text)
        cut = model.generate(self.PROMPT, temperature=0, stop=stop, max_tokens=2)
        self.assertEqual((len(cut.ids), cut.ended), (2, False))
        self.assertEqual(cut.text, model.tokenizer.decode(cut.ids))

    def test_of_the_checkpoint(self):
        folder = tools.scratch / "stops"
        folder.mkdir()
        for file in TINY.iterdir():
            if file.name != "generation_config.json":
                (folder / file.name).symlink_to(file)
        (folder / "generation_config.json").write_text(
            json.dumps({"stop_strings": ["nowhere", self.stop]})
        )
        stopping = cria.load(path, weights=folder, device="cpu")
        self.assertEqual(stopping.generation.stop_strings, ["nowhere", self.stop])
        self.assertEqual(stopping.generate(self.PROMPT).text, self.text)
        self.assertEqual(stopping.generate(self.PROMPT, stop=[]), self.whole)
        ignoring = cria.load(
            path, weights=folder, device="cpu", allow_unknown=["stop_strings"]
        )
        self.assertEqual(ignoring.generate(self.PROMPT), self.whole)

    def test_in_a_batch(self):
        options = {"temperature": 0, "stop": self.stop, "max_tokens": 100}
        prompts = [self.PROMPT, "Lily and Tom", IDS]
        batched = cria.load(
            cria.compile(TINY / "config.json", batch=2), weights=TINY, device="cpu"
        )
        with batched.batch() as batch:
            made = batch.generate(prompts, **options)
            info = batch.info
        self.assertEqual(made, [batched.generate(each, **options) for each in prompts])
        self.assertEqual(made[0].text, self.text)
        self.assertEqual((info.running + info.waiting, info.free_pages), (0, info.pages))

    def test_a_conversation_goes_on_without_it(self):
        chat = cria.load(path, weights=with_template(), device="cpu")
        whole = chat.chat("Hi", temperature=0, max_tokens=9).text
        stop = whole[len(whole) // 2 :][:5]  # too long to begin in the prompt
        with chat.conversation(temperature=0, stop=stop) as talk:
            reply = talk.say("Hi", max_tokens=9)
            self.assertEqual(reply, chat.chat("Hi", temperature=0, stop=stop, max_tokens=9))
            said = whole[: whole.index(stop)]
            self.assertEqual(reply.text, said)
            self.assertEqual(talk.messages[-1], {"role": "assistant", "content": said})
            again = talk.say("Why?", max_tokens=9)
            ids = chat.template.encode(chat.tokenizer, talk.messages[:-1])
            self.assertEqual(
                again, chat.generate(ids, temperature=0, stop=stop, max_tokens=9)
            )

    def test_wrong_strings(self):
        for wrong in ("", ["a", ""], [1], 5, "a\0b"):
            with self.assertRaises(cria.InvalidArgument):
                model.generate("Once", stop=wrong)
        drawn = cria.load(path, random_weights=1, device="cpu")
        with self.assertRaisesRegex(cria.NotFound, "stop strings need a tokenizer"):
            drawn.generate([1], stop="a")
        self.assertEqual(len(drawn.generate([1], stop="a", max_tokens=0).ids), 0)


class Grammars(unittest.TestCase):
    PROMPT = "Once upon a time"
    SCHEMA = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 8},
            "legs": {"type": "integer", "minimum": 2, "maximum": 4},
        },
        "required": ["name", "legs"],
        "additionalProperties": False,
    }

    def check(self, text):
        value = json.loads(text)
        self.assertEqual(list(value), ["name", "legs"])
        self.assertLessEqual(len(value["name"]), 8)
        self.assertIn(value["legs"], (2, 3, 4))

    def test_forms(self):
        for seed in range(5):
            made = model.generate(
                self.PROMPT, temperature=2, seed=seed, json_schema=self.SCHEMA
            )
            self.check(made.text)
            self.assertTrue(made.ended)
        text = json.dumps(self.SCHEMA)
        self.assertEqual(
            model.generate(self.PROMPT, temperature=2, seed=4, json_schema=text), made
        )
        rules = 'root ::= " " ("a" | "b"){3}'
        made = model.generate(self.PROMPT, grammar=rules)
        self.assertRegex(made.text, "^ [ab]{3}$")
        self.assertEqual(model.generate(self.PROMPT, regex=" [ab]{3}"), made)
        stream = model.generate(self.PROMPT, regex=" [ab]{3}", stream=True)
        self.assertEqual("".join(token.text for token in stream), made.text)
        cut = model.generate(self.PROMPT, regex="[ab ]{30}", max_tokens=2)
        self.assertEqual((len(cut.ids), cut.ended), (2, False))

    def test_a_grammar_serves_many_texts(self):
        grammar = model.grammar(json_schema=self.SCHEMA)
        with cria.load(
            cria.compile(TINY / "config.json", batch=2), weights=TINY, device="cpu"
        ).batch() as batch:
            prompts = [self.PROMPT, "Lily and Tom", IDS]
            options = {"temperature": 2.0, "seed": 1, "grammar": grammar}
            made = batch.generate(prompts, **options)
            self.assertEqual(batch.info.running, 0)
            self.assertEqual(batch.info.drafted, 0)
            with batch.model.batch(draft_rows=2) as drafting:
                alone = [drafting.generate([prompt], **options)[0] for prompt in prompts]
                self.assertEqual(alone, made)
                self.assertGreater(drafting.info.accepted, 0)
        for one, prompt in zip(made, prompts):
            self.check(one.text)
            self.assertEqual(one, model.generate(prompt, **options))

    def test_in_a_conversation(self):
        chat = cria.load(path, weights=with_template(), device="cpu")
        with chat.conversation(temperature=1, seed=1, regex="yes|no") as talk:
            for question in ("Hi", "Why?"):
                self.assertIn(talk.say(question).text, ("yes", "no"))
        self.assertIn(chat.chat("Hi", regex="yes|no").text, ("yes", "no"))

    def test_a_matcher_step_by_step(self):
        vocab = model.artifact.info.vocab_size
        matcher = model.grammar(regex="ab?").matcher()
        self.assertFalse(matcher.complete)
        first = {model.tokenizer.token(id) for id in np.flatnonzero(matcher.mask(vocab))}
        self.assertIn("a", first)
        self.assertLessEqual(first, {"a", "ab"})
        sampler = cria.Sampler(vocab)
        matcher.allow(sampler)
        id = sampler.sample(np.zeros(vocab))
        matcher.accept(id)
        self.assertTrue(matcher.complete)
        with self.assertRaisesRegex(cria.InvalidArgument, "may not come next"):
            matcher.copy().accept(model.tokenizer.find("a"))
        self.assertEqual(matcher.copy().finished, matcher.finished)
        matcher.accept(model.generation.end_ids[0])
        self.assertTrue(matcher.finished)
        with self.assertRaisesRegex(cria.FailedPrecondition, "the text has ended"):
            matcher.mask(vocab)

    def test_what_is_refused(self):
        for wrong, message in (
            ({"regex": "a", "grammar": "root ::= \"a\""}, "expected one of"),
            ({"regex": "(a"}, r"expected '\)'"),
            ({"regex": 5}, "regex: expected a text"),
            ({"json_schema": {"type": "strin"}}, "'type': expected one of"),
            ({"json_schema": {1, 2}}, "json_schema"),
            ({"grammar": "x"}, "line 1"),
        ):
            with self.assertRaisesRegex(cria.InvalidArgument, message):
                model.generate(self.PROMPT, **wrong)
        with self.assertRaisesRegex(cria.Unimplemented, "'not'"):
            model.grammar(json_schema={"not": {}})
        with self.assertRaises(cria.ResourceExhausted):
            model.grammar(regex="(a{1000}){1000}")
        with self.assertRaisesRegex(cria.NotFound, "no tokenizer"):
            cria.load(path, random_weights=1, device="cpu").generate([1], regex="a")


class Batches(unittest.TestCase):
    PROMPTS = ["Once upon a time", "Lily and Tom", [766, 376], "One day"]

    @classmethod
    def setUpClass(cls):
        artifact = cria.compile(TINY / "config.json", batch=3)
        cls.model = cria.load(artifact, weights=TINY, device="cpu")

    def test_prompts_become_what_each_becomes_alone(self):
        options = {"max_tokens": 9, "temperature": 0.8, "seed": 4}
        alone = [self.model.generate(each, **options) for each in self.PROMPTS]
        with self.model.batch() as batch:
            self.assertEqual(batch.generate(self.PROMPTS, **options), alone)
            info = batch.info
            self.assertEqual(info.free_pages, info.pages)
            with self.assertRaises(cria.OutOfRange):
                batch.generate(["Once"], max_tokens=256)
            with self.assertRaises(cria.InvalidArgument):
                batch.generate([[766], [800]], max_tokens=2)
            self.assertEqual(batch.info.running + batch.info.waiting, 0)

    def test_sequences_join_fork_and_leave(self):
        with self.model.batch(pages=20, threads=1) as batch:
            first = batch.join(logits=True)
            batch.feed(first, IDS, 1)
            (result,) = batch.step()
            self.assertEqual(result.finish, cria.Finish.LENGTH)
            self.assertEqual(result.id, int(result.logits.argmax()))
            self.assertEqual(batch.position(first), (len(IDS), len(IDS) + 1))
            self.assertEqual(batch.sequence(first), (len(IDS), len(IDS) + 1, 0))
            fork = batch.fork(first)
            with self.model.session() as session:
                session.restore(batch.save(first))
                next_ = session.feed([result.id])
            batch.feed(fork, [], 1)
            (result,) = batch.step()
            self.assertEqual(result.id, int(next_.argmax()))
            state = batch.save(fork)
            batch.leave(fork)
            with self.assertRaises(cria.NotFound):
                batch.leave(fork)
            batch.restore(batch.join(), state)

    def test_hidden_states_are_those_of_a_session(self):
        with self.model.session() as session:
            expected = session.forward(IDS, hidden="all").hidden
        with self.model.batch() as batch:
            sequence = batch.join(hidden=True)
            batch.feed(sequence, IDS, 0)
            results = batch.step()
            self.assertEqual([each.id for each in results], [None] * len(results))
            self.assertEqual(results[-1].finish, cria.Finish.LENGTH)
            states = [each.hidden for each in results if each.hidden is not None]
            np.testing.assert_array_equal(np.concatenate(states), expected)

    def test_a_sequence_without_pages_is_refused(self):
        with self.model.batch(pages=2, refuse=True) as batch:
            sequence = batch.join(cria.Sampler(768), end_ids=[])
            batch.feed(sequence, list(range(30)), 10)
            while batch.unfinished:
                (result,) = batch.step()
            self.assertEqual(result.finish, cria.Finish.FAILED)
            self.assertIsInstance(result.error, cria.ResourceExhausted)
            self.assertIn("needs 3 pages and has 2", str(result.error))
            with self.assertRaises(cria.ResourceExhausted):
                batch.feed(batch.join(), list(range(40)), 1)


@functools.cache
def emulated():
    """A model on the emulated GPU, where prefill and decoding give other bits."""
    options = {"batch": 2, "chunk": 16, "target": "cuda", "chip": "sm_80"}
    artifact = cria.compile(TINY / "config.json", **options)
    return cria.load(artifact, weights=TINY, device="emulated")


class Emulated(unittest.TestCase):
    def test_a_step_that_fails_has_results(self):
        fault = {"CRIA_EMULATOR_FAULTS": "cuLaunchKernelEx:1:1"}
        with emulated().batch(pages=3, refuse=True) as batch:
            batch.feed(batch.join(), list(range(30)), 2)
            self.assertEqual(batch.step(), [])
            drawn = [result.sequence for result in batch.step()]
            batch.feed(batch.join(), list(range(30)), 2)
            with unittest.mock.patch.dict(os.environ, fault):
                cria.devices("emulated")  # the driver reads its environment
                with self.assertRaisesRegex(cria.Error, "cuLaunchKernelEx"):
                    batch.step()
            cria.devices("emulated")
            self.assertEqual(batch.unfinished, 1)
            (refused,) = batch.results
            self.assertIsInstance(refused.error, cria.ResourceExhausted)
            while batch.unfinished:
                drawn += [result.sequence for result in batch.step()]
            self.assertEqual((refused.sequence, drawn), (2, [1, 1]))

    def test_a_copy_goes_on_with_an_announced_prompt(self):
        ids = list(range(38))
        with emulated().session() as session:
            whole = session.feed(ids)
        with emulated().session() as session:
            session.expect_prompt(38)
            session.feed(ids[:10], "none")
            with session.copy() as copy:
                copy.feed(ids[10:37], "none")
                np.testing.assert_array_equal(copy.feed(ids[37:]), whole)


class Coroutines(unittest.IsolatedAsyncioTestCase):
    PROMPTS = ["Once upon a time", "Lily and Tom", [766, 376], "One day", "The dog"]

    @classmethod
    def setUpClass(cls):
        artifact = cria.compile(TINY / "config.json", batch=3)
        cls.model = cria.load(artifact, weights=with_template(), device="cpu")

    async def test_await_texts_of_one_batch(self):
        options = {"max_tokens": 20, "temperature": 0.8, "seed": 3, "stop": ["fox"]}
        alone = [self.model.generate(prompt, **options) for prompt in self.PROMPTS]
        async with self.model.async_batch() as batch:
            asked = [batch.generate(prompt, **options) for prompt in self.PROMPTS]
            self.assertEqual(await asyncio.gather(*asked), alone)
            # Again, after a time without texts; in a stream, and in a chat.
            tokens = [token async for token in batch.stream(self.PROMPTS[0], **options)]
            self.assertEqual("".join(token.text for token in tokens), alone[0].text)
            self.assertEqual([token.id for token in tokens], alone[0].ids)
            reply = await batch.chat("Hello", **options)
            self.assertEqual(reply, self.model.chat("Hello", **options))
            schema = {"enum": ["yes", "no"]}
            answer = await batch.generate("Once", json_schema=schema)
            self.assertIn(json.loads(answer.text), ["yes", "no"])
            none = await batch.generate("Once", max_tokens=0)
            self.assertEqual((none.text, none.ids), ("", []))

    async def test_cancelled_coroutines_end_their_texts(self):
        options = {"max_tokens": 200, "temperature": 0.8, "seed": 3, "stop": []}
        alone = self.model.generate("Lily", **options)
        async with self.model.async_batch() as batch:
            other = asyncio.create_task(batch.generate("Lily", **options))
            # Three run, the others wait; all of them are cancelled.
            tasks = [asyncio.create_task(batch.generate("Once", **options)) for _ in range(6)]
            async for _ in batch.stream("Tom", **options):
                break
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertTrue(all(isinstance(end, asyncio.CancelledError) for end in ends))
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(batch.generate("Once", **options), 0.001)
            self.assertEqual(await other, alone)
            while batch._thread:
                await asyncio.sleep(0.01)
            info = batch._batch.info
            self.assertEqual(info.running + info.waiting, 0)
            self.assertLess(info.decoded, 9 * 200)

    async def test_errors_are_of_one_text(self):
        async with self.model.async_batch() as batch:
            good = asyncio.create_task(batch.generate("Once", max_tokens=30))
            for error, prompt, options in (
                (cria.OutOfRange, "Once", {"max_tokens": 256}),
                (cria.InvalidArgument, [], {}),
                (cria.InvalidArgument, [800], {}),
                (cria.InvalidArgument, "Once", {"temperature": -1}),
                (cria.InvalidArgument, "Once", {"regex": "("}),
            ):
                with self.assertRaises(error):
                    await batch.generate(prompt, **options)
            with self.assertRaises(AttributeError):
                await batch.generate("Once", lora=5)
            self.assertEqual(len((await good).ids), 30)
            late = asyncio.create_task(batch.generate("Once", max_tokens=250, stop=[]))
            await asyncio.sleep(0)
            async for _ in batch.stream("Once"):
                break
        with self.assertRaises(cria.FailedPrecondition):
            await late
        with self.assertRaisesRegex(cria.FailedPrecondition, "closed"):
            await batch.generate("Once")

    async def test_thread_without_texts_leaves_new_ones_to_the_next(self):
        async with self.model.async_batch() as batch:
            batch._joining.append(text := object())
            with unittest.mock.patch.object(batch, "_go_on", return_value=False):
                batch._run()
            self.assertEqual(batch._joining, [text])
            batch._joining.clear()

    async def test_stream_of_a_session(self):
        options = {"max_tokens": 12, "temperature": 0}
        whole = self.model.generate("Once", **options)
        tokens = [token async for token in self.model.astream("Once", **options)]
        self.assertEqual([token.id for token in tokens], whole.ids)
        self.assertEqual("".join(token.text for token in tokens), whole.text)
        async for token in self.model.astream("Once", max_tokens=200):
            break
        with self.assertRaises(cria.OutOfRange):
            await anext(self.model.astream("Once", max_tokens=256))


class Numbers(unittest.TestCase):
    def test_logits_are_as_faithful_as_those_of_transformers(self):
        with np.load(TINY / "expected.npz") as arrays:
            exact, bits = arrays["f32"], arrays["bf16"]
        peer = (bits.astype(np.uint32) << 16).view(np.float32)
        with model.session() as session:
            logits = session.feed(IDS, "all")
            harness.check_as_faithful(exact, peer, logits, "logits")
            session.rewind()
            np.testing.assert_allclose(session.feed(IDS), logits[-1], atol=1e-5)

    def test_logits_are_not_copied(self):
        out = np.full((2, 768), np.nan, np.float32)
        with model.session() as session:
            self.assertIs(session.feed([1, 2], "all", out=out), out)
            self.assertTrue(np.isfinite(out).all())
            logits = session.feed([3])
            view = np.from_dlpack(logits)
            self.assertEqual(view.ctypes.data, logits.ctypes.data)
            for wrong in (out, out[0, ::2], out[0].astype(np.float64)):
                with self.assertRaises(cria.InvalidArgument):
                    session.feed([3], out=wrong)
            self.assertEqual(session.position, 3)

    def test_tensors_of_others_are_taken(self):
        class Tensor:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **options):
                return self.array.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        rows = np.random.default_rng(1).normal(0, 0.02, (3, 96)).astype(np.float32)
        with model.session() as one, model.session() as other:
            one.feed_embeddings(rows)
            other.feed_embeddings(Tensor(rows))
            ids = Tensor(np.array(IDS))
            np.testing.assert_array_equal(one.feed(IDS), other.feed(ids))

    def test_logits_of_chosen_ids(self):
        with model.session() as session:
            logits = session.feed(IDS, "all")
            for rows in ([0], [2, 7, 8, 13], [13], [], list(range(14))):
                session.rewind()
                chosen = session.feed(IDS, rows)
                self.assertEqual(chosen.shape, (len(rows), 768))
                np.testing.assert_allclose(chosen, logits[rows], atol=1e-5)
                self.assertEqual(session.position, 14)
            session.rewind()
            for wrong in ([14], [3, 3], [-1], "some"):
                with self.assertRaises(cria.InvalidArgument):
                    session.feed(IDS, wrong)

    def test_hidden_states_beside_logits(self):
        """In chunks of 8; the library writes them, and hidden states of 3 or of none."""
        with model.session() as session:
            logits = session.feed(IDS, "all")
            session.rewind()
            made = session.forward(IDS, logits=np.array([2, 13]), hidden="all")
            self.assertEqual(made.hidden.shape, (14, 96))
            np.testing.assert_allclose(made.logits, logits[[2, 13]], atol=1e-5)
            session.rewind()
            last = session.forward(IDS, hidden="last")
            np.testing.assert_array_equal(last.hidden, made.hidden[-1:])
            self.assertIsNone(last.logits)
            session.rewind()
            self.assertEqual(session.forward(IDS, hidden="none"), (None, None))
            self.assertEqual(session.position, 14)
            for wrong in ("some", [1]):
                with self.assertRaises(cria.InvalidArgument):
                    session.forward([3], hidden=wrong)

    def test_embeddings_make_what_their_ids_make(self):
        data = (TINY / "model.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        table = json.loads(data[8 : 8 + length])["model.embed_tokens.weight"]
        begin, end = (8 + length + at for at in table["data_offsets"])
        bits = np.frombuffer(data[begin:end], np.uint16).reshape(table["shape"])
        rows = (bits[IDS].astype(np.uint32) << 16).view(np.float32) # of bf16
        with model.session() as session:
            want = session.forward(IDS, logits="all")
            session.rewind()
            got = session.forward_embeddings(rows, logits="all")
            np.testing.assert_array_equal(got.logits, want.logits)
            np.testing.assert_array_equal(got.hidden, want.hidden)
            session.rewind()
            with self.assertRaisesRegex(cria.InvalidArgument, "hidden size 96"):
                session.forward_embeddings(rows[:, :5])

    def test_embeddings_pool_hidden_states(self):
        with model.session() as session:
            states = session.forward(IDS).hidden.astype(np.float64)
        for pooling, want in (
            ("mean", states.mean(0)),
            ("last", states[-1]),
            ("first", states[0]),
        ):
            got = model.embed(IDS, pooling=pooling)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            unit = model.embed(IDS, pooling=pooling, normalize=True)
            np.testing.assert_allclose(unit, want / np.linalg.norm(want), atol=1e-5)
        both = model.embed(["Once upon a time", IDS])
        self.assertEqual(both.shape, (2, 96))
        np.testing.assert_array_equal(both[1], model.embed(IDS))
        with self.assertRaisesRegex(cria.InvalidArgument, "pooling: expected one of"):
            model.embed(IDS, pooling="max")

    def test_positions_are_dropped(self):
        with model.session() as session:
            session.feed(IDS, "none")
            session.drop(3, 7)
            self.assertEqual(session.position, 10)
            self.assertTrue(np.isfinite(session.feed([5])).all())
            with self.assertRaises(cria.OutOfRange):
                session.drop(3, 12)

    def test_log_probabilities(self):
        with model.session() as session:
            logits = session.feed(IDS)
        ids = [1, 338, 767]
        np.testing.assert_allclose(
            cria.log_probabilities(logits, ids), harness.log_softmax(logits)[ids]
        )
        best, values = cria.top_log_probabilities(logits, 5)
        np.testing.assert_array_equal(best, np.argsort(-logits, kind="stable")[:5])
        np.testing.assert_allclose(values, harness.log_softmax(logits)[best])
        with self.assertRaises(cria.InvalidArgument):
            cria.top_log_probabilities(logits, 769)

    def test_biases_and_allowed_ids(self):
        with model.session() as session:
            logits = session.feed(IDS)
        best, second = logits.argsort()[:-3:-1]
        sampler = cria.Sampler(768)
        self.assertEqual(sampler.sample(logits), best)
        sampler.set_bias({int(best): -100.0})
        self.assertEqual(sampler.sample(logits), second)
        sampler.set_bias({})
        self.assertEqual(sampler.sample(logits), best)
        for chosen in ([40, 767], np.isin(np.arange(768), [40, 767])):
            sampler.allow(chosen)
            expected = 40 if logits[40] > logits[767] else 767
            self.assertEqual(sampler.sample(logits), expected)
        with self.assertRaises(cria.InvalidArgument):
            sampler.allow([])
        sampler.allow(None)
        self.assertEqual(sampler.sample(logits), best)

    def test_sampler_draws_as_the_session(self):
        sampling = cria.Sampling(temperature=1, top_p=0.9, seed=7)
        with model.session() as session:
            drawn = session.draw(IDS, cria.Sampler(768, sampling))
            session.rewind()
            sampled = cria.Sampler(768, sampling).sample(session.feed(IDS))
        self.assertEqual(drawn, sampled)

    def test_sampling_of_the_checkpoint(self):
        asked = json.loads((TINY / "generation_config.json").read_text())
        self.assertEqual(model.sampling().temperature, asked["temperature"])
        self.assertEqual(model.sampling(temperature=0).temperature, 0)
        self.assertEqual(cria.Sampling().replace(top_k=5).temperature, 1)


class Adapters(unittest.TestCase):
    def test_as_cria_run_merges_them(self):
        shapes = lora.shapes_of(tools, path)
        folder = tools.scratch / "lora"
        lora.Adapter(4, 80, r"_proj\.weight", 2).write(folder, shapes)
        adapted = cria.load(path, weights=TINY, device="cpu", loras=[cria.Lora(folder, 2)])
        flags = [f"--weights={TINY}", f"--lora={folder}=2"]
        expected = tools.greedy(path, IDS, 20, *flags)
        made = adapted.generate(IDS, temperature=0, max_tokens=20)
        self.assertEqual(made.ids, expected)
        self.assertNotEqual(made.ids, EXPECTED[0]["greedy"][:20])

    def test_sets_that_sessions_choose(self):
        roomy = tools.scratch / "roomy.cria"
        cria.compile(TINY / "config.json", out=roomy, lora_rank=4)
        folders = [tools.scratch / f"set{seed}" for seed in (3, 4)]
        for seed, folder in enumerate(folders):
            lora.Adapter(4, 80, r"_proj\.weight", seed).write(
                folder, lora.shapes_of(tools, path)
            )
        both = cria.load(roomy, weights=TINY, device="cpu")
        sets = [both.lora_set([folder]) for folder in folders]
        sessions = [both.session(lora=one) for one in [*sets, None]]
        for session, loras in zip(sessions, [folders[:1], folders[1:], []]):
            alone = cria.load(
                roomy, weights=TINY, device="cpu", loras=loras, lora_unmerged=True
            )
            expected = alone.session().feed(IDS, "all")
            np.testing.assert_array_equal(session.feed(IDS, "all"), expected)
        sessions[2].lora = sets[0]
        self.assertIs(sessions[2].lora, sets[0])
        sessions[2].rewind()
        sessions[0].rewind()
        np.testing.assert_array_equal(sessions[2].feed(IDS), sessions[0].feed(IDS))
        with self.assertRaisesRegex(cria.InvalidArgument, "of another model"):
            model.session(lora=sets[0])
        with self.assertRaisesRegex(cria.FailedPrecondition, "--lora-rank=4"):
            model.lora_set(folders[:1])

    def test_sets_that_sequences_have(self):
        roomy = cria.compile(TINY / "config.json", lora_rank=4, batch=4)
        folders = [tools.scratch / f"row{seed}" for seed in (5, 6)]
        for seed, folder in enumerate(folders):
            lora.Adapter(4, 80, r"_proj\.weight", seed).write(
                folder, lora.shapes_of(tools, path)
            )
        both = cria.load(roomy, weights=TINY, device="cpu")
        first, second = (both.lora_set([folder]) for folder in folders)
        ids = [*IDS, *range(20)]  # more than a page
        wanted = []
        for one in (first, second, None):
            session, likeliest = both.session(lora=one), cria.Sampler(768)
            drawn = [session.draw(ids, likeliest)]
            for _ in range(8):
                drawn.append(session.draw(drawn[-1:], likeliest))
            wanted.append(drawn)
        self.assertEqual(len(set(map(tuple, wanted))), 3)
        with both.batch() as batch:
            # The last one finds the first one's pages, and no other's.
            order = [0, 1, 2, 0]
            sequences = [batch.join(lora=(first, second, None)[i]) for i in order]
            drawn = {sequence: [] for sequence in sequences}
            for sequence in sequences:
                batch.feed(sequence, ids, 9)
            while batch.unfinished:
                for result in batch.step():
                    drawn[result.sequence].append(result.id)
            self.assertEqual(list(drawn.values()), [wanted[i] for i in order])
            self.assertEqual(batch.info.reused, (len(ids) - 1) // 16 * 16)
            self.assertEqual(batch.fork(sequences[0]), 5)
            with self.assertRaisesRegex(cria.InvalidArgument, "of another model"):
                batch.join(lora=model.lora_set([]))


class Devices(unittest.TestCase):
    def test_are_listed(self):
        (cpu,) = cria.devices("cpu")
        self.assertEqual((cpu.device, cpu.compute_capability), ("cpu", 0))
        self.assertGreater(cpu.free_bytes, 0)
        (emulated,) = cria.devices("emulated")
        self.assertEqual(emulated.compute_capability, 80)

    def test_are_refused(self):
        for wrong in ("gpu", "cpu:0", "cuda:x", "cuda:"):
            with self.assertRaisesRegex(cria.InvalidArgument, "device: expected auto"):
                cria.load(path, weights=TINY, device=wrong)


class Log(unittest.TestCase):
    def test_says_what_the_library_does(self):
        said = []
        loaded = cria.load(
            path,
            weights=TINY,
            device="cpu",
            log=lambda level, text: said.append((level, text)),
        )
        self.assertEqual([text for level, text in said if level == "warning"], loaded.warnings)
        self.assertRegex(said[-1][1], "^loaded in")
        self.assertEqual(said[-1][0], "info")


class Text(unittest.TestCase):
    def test_tokenizer(self):
        tokenizer = model.tokenizer
        self.assertEqual(tokenizer.encode(EXPECTED[0]["prompt"]), IDS)
        self.assertEqual(tokenizer.decode(IDS), EXPECTED[0]["prompt"])
        spelled = "<|begin_of_text|>"
        self.assertEqual(tokenizer.encode(spelled, special=False), [766])
        as_text = tokenizer.encode(spelled, special=False, parse_special=False)
        self.assertEqual(tokenizer.decode(as_text), spelled)
        self.assertEqual(tokenizer.vocab_size, 768)
        self.assertEqual(tokenizer.token(766), spelled)
        text = b"".join(tokenizer.token_bytes(id) for id in tokenizer.encode("a b", special=False))
        self.assertEqual(text.lstrip(), b"a b")
        self.assertEqual(tokenizer.find(spelled), 766)
        with self.assertRaises(cria.NotFound):
            tokenizer.find("no such token")
        self.assertEqual((model.generation.begin, model.generation.end_ids), (766, [767]))
        stream = tokenizer.stream()
        ids = tokenizer.encode("né 🦊!")
        text = "".join(map(stream.push, ids)) + stream.finish()
        self.assertEqual(text, "né 🦊!")

    def check_conversation(self, artifact):
        """Of a system's message and two of the user. Returns the model, the conversation
        and its messages."""
        chat = cria.load(artifact, weights=with_template(), device="cpu")
        talk = chat.conversation("Be kind.", temperature=0)
        said = [{"role": "system", "content": "Be kind."}]
        for message in ("Hi", "Why?"):
            said.append({"role": "user", "content": message})
            ids = chat.template.encode(chat.tokenizer, said)
            expected = chat.generate(ids, temperature=0, max_tokens=9)
            reply = talk.say(message, max_tokens=9)
            self.assertEqual(reply, expected)
            self.assertEqual(
                chat.chat(said, temperature=0, max_tokens=9), expected
            )
            said.append({"role": "assistant", "content": reply.text})
            self.assertEqual(talk.messages, said)
        return chat, talk, said

    def test_a_conversation_is_what_its_ids_are(self):
        """Also where the frequencies of RoPE depend on its length."""
        config = json.loads((TINY / "config.json").read_text())
        rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
        lengths = {"max_position_embeddings": 16, "rope_parameters": rope}
        self.check_conversation(cria.compile(config | lengths, max_seq=256, chunk=8))
        chat, talk, said = self.check_conversation(path)
        # A reply that nobody reads on counts as far as it went.
        reply = talk.say("And?", stream=True)
        heard = "".join(token.text for token in itertools.islice(reply, 4))
        reply.close()
        self.assertEqual(talk.messages[-1]["content"].strip(), heard.strip())
        form = cria.ChatTemplate(source="{{ bos_token }}{{ messages[0].content }}")
        ids = form.encode(chat.tokenizer, said[1:], bos_token="<|begin_of_text|>")
        self.assertEqual(ids, [766, *chat.tokenizer.encode("Hi", special=False)])
        rendered = chat.template.render(said[:2], add_generation_prompt=False)
        self.assertTrue(rendered.endswith("user: Hi\n"))


class Compiles(unittest.TestCase):
    def test_a_dictionary(self):
        made = long_artifact()
        self.assertEqual(made.info.max_seq, 60000)
        self.assertEqual(made.manifest["cpu"][0]["name"], "x86-64-v3")
        config = made.manifest["config"] | {"max_position_embeddings": 256}
        self.assertEqual(config, model.artifact.manifest["config"])

    def test_says_what_the_compiler_says(self):
        with self.assertRaisesRegex(cria.CompileError, "'model_type' is missing"):
            cria.compile({})
        with self.assertRaisesRegex(cria.CompileError, "--no-such-option"):
            cria.compile(TINY / "config.json", no_such_option=1)

    def test_shows_its_plan(self):
        shown = model.artifact._repr_html_()
        for part in ("474,144", "layers_mlp_down_decode", "tokens/32 (to 32)", "model.norm.weight"):
            self.assertIn(part, shown)
        self.assertEqual(model._repr_html_(), shown)

    def test_artifacts_from_memory_and_without_running(self):
        data = path.read_bytes()
        self.assertEqual(cria.Artifact(data).manifest, cria.inspect(path))
        with path.open("rb") as file:
            self.assertEqual(cria.Artifact(file).manifest, cria.inspect(path))
        fits, report = model.artifact.check(TINY)
        self.assertTrue(fits)
        self.assertIn("memory", report)
        fits, report = model.artifact.check(TINY.parent / "graphs" / "bert")
        self.assertFalse(fits)
        self.assertIn("model.embed_tokens.weight", report)
        with self.assertRaises(cria.NotFound):
            model.artifact.check(SCRATCH / "nowhere")

    def test_says_how_far_it_is(self):
        done = []
        with self.assertWarnsRegex(cria.CriaWarning, "quantized from bf16 to q8_0"):
            cria.load(
                long_artifact(),
                weights=TINY,
                device="cpu",
                progress=lambda *units: done.append(units),
            )
        self.assertEqual(done[-1][0], done[-1][1])
        self.assertEqual(done, sorted(done))


class Errors(unittest.TestCase):
    def check(self, kind, status, message, call):
        with self.assertRaisesRegex(kind, message) as caught:
            call()
        self.assertIs(type(caught.exception), kind)
        self.assertIs(caught.exception.status, status)

    def test_wrong_arguments(self):
        """Of any type, and out of range: never an error of Python, NumPy or cffi."""
        tokenizer, template = model.tokenizer, cria.ChatTemplate(with_template())
        sampler, session = cria.Sampler(768), model.session()
        batched = cria.compile(TINY / "config.json", batch=2)
        batch = cria.load(batched, weights=TINY, device="cpu").batch(draft_rows=4)
        sequence = batch.join()
        numbers = [2**70, "x", [], -(2**70)]
        texts = ["\ud800", 5, b"x", None]
        paths = ["a\0b", 5, "\ud800"]
        ids = [[-1], [2**40], [2**70], ["a"], [[1], [1, 2]], 1.5, [1.5]]
        chats = [5, [{1, 2}], [{"content": {1}}], [{"content": float("nan")}]]
        most = [-5, -1, 1.5, *numbers]
        calls = [
            (lambda v: model.generate(IDS, max_tokens=v), most),
            (lambda v: list(model.generate(IDS, max_tokens=v, stream=True)), most),
            (lambda v: session.generate(IDS, max_tokens=v), most),
            (lambda v: model.generate(IDS, seed=v), [-1, 2**64, 1.5, *numbers]),
            (lambda v: model.generate(IDS, temperature=v), ["x", [], float("nan"), -1]),
            (lambda v: model.generate(IDS, top_k=v), [-1, 1.5, *numbers]),
            (lambda v: model.generate(IDS, surprise=v), [1]),
            (lambda v: model.generate(v), [*ids, "\ud800"]),
            (tokenizer.encode, texts),
            (tokenizer.find, [*texts, "a\0b"]),
            (tokenizer.token, [-1, *numbers]),
            (tokenizer.decode, ids),
            (tokenizer.stream().push, numbers),
            (template.render, [*chats, [{"content": "\ud800"}]]),
            (lambda v: template.render([], x=v), [{1}, float("inf")]),
            (lambda v: cria.ChatTemplate(source=v), texts),
            (cria.Tokenizer, paths),
            (cria.Artifact, paths),
            (cria.inspect, paths),
            (lambda v: cria.load(path, weights=v), paths),
            (lambda v: cria.load(path, random_weights=v), [-1, 2**64, "x", 1.5]),
            (lambda v: cria.load(path, TINY, device=v), [5, "cuda:99999999999", "x"]),
            (lambda v: cria.load(path, TINY, loras=[cria.Lora("x", v)]), ["x", []]),
            (lambda v: model.session(threads=v), numbers),
            (cria.Sampler, [-1, *numbers]),
            (sampler.accept, numbers),
            (sampler.set_bias, [{2**40: 1.0}, {"a": 1.0}, {0: "x"}, {1.5: 1.0}, 5]),
            (sampler.allow, [["a"], [1.5], [-1], [2**70], 5]),
            (sampler.sample, ["abc", [["a"]], {}, ["1"] * 768, [1j] * 768]),
            (lambda v: cria.log_probabilities(v, [1]), ["abc", [["a"]]]),
            (session.rewind, [-1, *numbers]),
            (lambda v: session.drop(v, v), [-1, *numbers]),
            (session.expect_prompt, numbers),
            (session.restore, ["text", 5, b"x"]),
            (session.feed_embeddings, ["abc", [["a"]], [1.0]]),
            (lambda v: session.embed(IDS, pooling=v), [5, [], "x"]),
            (lambda v: session.feed(IDS, v), [["a"], [2**70], 5, [0.5], [False, True], ["0"]]),
            (lambda v: session.feed(IDS, out=v), [[0.0] * 768, bytearray(3072), "x"]),
            (lambda v: batch.propose(sequence, [1, 2], v), [[[1], [1, 2]], "x", [True] * 4]),
            (lambda v: batch.generate(v), [5, None]),
            (lambda v: cria.top_log_probabilities([1.0, 2.0], v), [3, *most]),
            (model.limit, [-1, 1.5, "x", None]),
            (lambda v: cria.compile({"x": v}), [{1}, float("nan")]),
            (lambda v: cria.compile(TINY / "config.json", x=v), ["a\0b"]),
        ]
        for call, values in calls:
            for value in values:
                with self.subTest(call=call, value=value):
                    self.assertRaises(cria.Error, call, value)

    def test_have_the_status_of_the_library(self):
        status, nowhere = cria.Status, SCRATCH / "nowhere"
        self.check(
            cria.NotFound,
            status.NOT_FOUND,
            "nowhere",
            lambda: cria.load(nowhere, weights=TINY),
        )
        self.check(
            cria.InvalidArgument,
            status.INVALID_ARGUMENT,
            "id 768 at index 1",
            lambda: model.generate([1, 768]),
        )
        self.check(
            cria.OutOfRange,
            status.OUT_OF_RANGE,
            "257 ids exceed the artifact's max_seq 256",
            lambda: model.generate([1] * 257),
        )
        damaged = bytearray(path.read_bytes())
        damaged[5000] ^= 1
        self.check(
            cria.DataLoss,
            status.DATA_LOSS,
            "checksum",
            lambda: cria.Artifact(damaged),
        )
        with unittest.mock.patch.dict(os.environ, CRIA_CUDA_DRIVER="none.so"):
            self.check(
                cria.Unavailable,
                status.UNAVAILABLE,
                "none.so is not available",
                lambda: cria.load(path, weights=TINY, device="cuda"),
            )

    def test_are_the_statuses_of_the_header(self):
        known = _native.ffi.typeof("cria_status").elements
        names = {name.removeprefix("CRIA_"): value for value, name in known.items()}
        self.assertEqual(names, {item.name: item.value for item in cria.Status})

    def test_refuse_what_are_no_ids(self):
        for wrong in ([1.5], [[1]], [-1], [2**31], [None], [], "x" * 2000):
            with self.assertRaises(cria.Error, msg=wrong):
                model.generate(wrong, max_tokens=1)

    def test_warnings_of_the_binding(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loaded = cria.load(path, weights=TINY)  # for a GPU, too
        self.assertEqual(
            loaded.warnings,
            [str(w.message) for w in caught if w.category is cria.CriaWarning],
        )


class Lives(unittest.TestCase):
    def test_in_any_order(self):
        loaded = cria.load(path, weights=TINY, device="cpu")
        session, tokenizer = loaded.session(), loaded.tokenizer
        stream = tokenizer.stream()
        session.model = None  # the library alone keeps the model
        del loaded, tokenizer
        gc.collect()
        stream.push(IDS[1])
        sampler = cria.Sampler(768)
        handle = sampler._handle
        self.assertTrue(handle)
        session.close()
        session.close()
        with self.assertRaisesRegex(cria.FailedPrecondition, "session is closed"):
            session.rewind()

    def test_a_stream_that_is_dropped_frees_its_session(self):
        tokens = model.generate("Once", stream=True)
        session = inspect.getgeneratorlocals(tokens)["session"]
        next(tokens)
        tokens.close()
        with self.assertRaises(cria.FailedPrecondition):
            session.rewind()

    def test_one_thread_at_a_time(self):
        with model.session() as session:
            refused = []

            def rewind():
                try:
                    session.rewind()
                except cria.FailedPrecondition as problem:
                    refused.append(str(problem))

            def elsewhere():
                thread = threading.Thread(target=rewind)
                thread.start()
                thread.join()

            session._alone(elsewhere)
            self.assertEqual(refused, ["another thread uses the session"])
            elsewhere()
            self.assertEqual(len(refused), 1)

    def test_many_sessions_in_many_threads(self):
        made = {}

        def generate(case):
            made[case["prompt"]] = model.generate(case["ids"], temperature=0).ids

        threads = [threading.Thread(target=generate, args=[c]) for c in EXPECTED]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(made, {c["prompt"]: c["greedy"] for c in EXPECTED})

    def test_a_child_does_not_free_what_its_parent_has(self):
        session = model.session()
        if (child := os.fork()) == 0:
            session.close()
            os._exit(7)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        session.feed(IDS, "none")
        session.close()


class Interrupts(unittest.TestCase):
    def test_in_functions_that_the_library_calls(self):
        """What `progress` and `log` raise is raised; nothing is freed twice or lost."""

        def interrupted(*arguments):
            signal.raise_signal(signal.SIGINT)

        def failed(*arguments):
            raise LookupError("of the program")

        for kind, function in [(KeyboardInterrupt, interrupted), (LookupError, failed)]:
            for name in ("progress", "log"):
                with self.subTest(kind=kind, name=name), self.assertRaises(kind):
                    cria.load(path, random_weights=1, device="cpu", **{name: function})
        gc.collect()
        self.assertEqual(model.generate(IDS, max_tokens=1).ids, EXPECTED[0]["greedy"][:1])

    def test_at_ctrl_c_between_chunks(self):
        """The session holds what was fed, and goes on."""
        feed, fed = _native.lib.cria_session_feed, []

        def interrupted(*arguments):
            fed.append(arguments[2])
            if len(fed) == 2:
                signal.raise_signal(signal.SIGINT)
            return feed(*arguments)

        with model.session() as session:
            _native.lib.cria_session_feed = interrupted
            try:
                with self.assertRaises(KeyboardInterrupt):
                    session.feed([1] * 40)
            finally:
                _native.lib.cria_session_feed = feed
            self.assertEqual(session.position, sum(fed[:-1]))
            session.rewind()
            made = session.generate(IDS, temperature=0)
            self.assertEqual(made.ids, EXPECTED[0]["greedy"])

    def test_at_ctrl_c_in_the_middle_of_a_text(self):
        long_artifact()
        long = tools.scratch / "long.cria"
        program = (
            "import sys, cria\n"
            "model = cria.load(sys.argv[1], random_weights=1, device='cpu')\n"
            "print('ready', flush=True)\n"
            "model.generate([1])"
        )
        running = subprocess.Popen(
            [sys.executable, "-c", program, long],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.assertEqual(running.stdout.readline(), b"ready\n")
        time.sleep(0.3)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=30)
        self.assertEqual(running.returncode, -signal.SIGINT)
        self.assertIn(b"KeyboardInterrupt", errors)

    def test_where_it_is_cancelled(self):
        with model.session() as session:
            session.cancel()
            with self.assertRaises(cria.Cancelled) as caught:
                session.feed(IDS)
            self.assertIs(caught.exception.status, cria.Status.CANCELLED)
            session.cancel()
            session.resume()
            session.feed(IDS)


@functools.cache
def without_tools():
    """A folder with the package as python3-cria has it, beside the package cria."""
    folder = tools.scratch / "alone"
    ignored = shutil.ignore_patterns("bin")
    shutil.copytree(pathlib.Path(cria.__file__).parent, folder / "cria", ignore=ignored)
    return folder


class CommandLine(unittest.TestCase):
    def test_is_cria_run(self):
        trace = tools.scratch / "trace.json"
        for flags in (
            ["--help"],
            ["--prompt=Once upon a time", "--temperature=0"],
            ["--prompt=Once", "--seed=3", "--max-tokens=3", f"--profile={trace}"],
            ["--ids=800"],
            ["--max-tokens=010"],
        ):
            ours, theirs = (
                subprocess.run(
                    [*tool, path, f"--weights={TINY}", "--device=cpu", *flags],
                    capture_output=True,
                )
                for tool in ([sys.executable, "-m", "cria"], [BIN / "cria-run"])
            )
            self.assertEqual(ours.returncode, theirs.returncode, ours.stderr)
            if "--help" not in flags:  # which names the program's path
                self.assertEqual(ours.stdout, theirs.stdout, flags)
            if ours.returncode:
                self.assertEqual(ours.stderr, theirs.stderr)
        self.assertIn("traceEvents", json.loads(trace.read_text()))

    def test_is_on_path_where_the_package_has_none(self):
        alone = without_tools()
        for folder, expected in ((BIN, b"cria-run "), ("/usr/bin", b"is not on PATH")):
            done = subprocess.run(
                [sys.executable, "-m", "cria", "--version"],
                env=os.environ | {"PYTHONPATH": str(alone), "PATH": str(folder)},
                capture_output=True,
            )
            self.assertIn(expected, done.stdout + done.stderr)
            self.assertEqual(done.returncode == 0, folder == BIN, done.stderr)

    def test_compiler_is_the_packages_own(self):
        code = "import cria; print(cria.compiler())"
        package = pathlib.Path(cria.__file__).parent
        for root, expected in ((package.parent, package / "bin"), (without_tools(), BIN)):
            done = subprocess.check_output(
                [sys.executable, "-c", code],
                env={"PYTHONPATH": str(root), "PATH": str(BIN)},
                text=True,
            )
            self.assertEqual(done.strip(), str(expected / "cria-compile"))


class Documentation(unittest.TestCase):
    def test_everything_public_has_a_docstring(self):
        def undocumented(thing, name):
            if not inspect.getdoc(thing):
                yield name
            if inspect.isclass(thing):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and (
                        inspect.isfunction(value) or isinstance(value, property)
                    ):
                        yield from undocumented(value, f"{name}.{member}")

        things = ((name, getattr(cria, name)) for name in cria.__all__)
        found = [each for name, thing in things for each in undocumented(thing, name)]
        self.assertEqual(found, [])

    def test_every_function_of_the_library_is_called(self):
        """A function that a header gains is bound, or named here."""
        folder = pathlib.Path(cria.__file__).parent
        header = "".join(h.read_text() for h in (folder / "include").iterdir())
        declared = set(harness.re.findall(r"\b(cria_\w+)\(", header))
        used = set()
        for file in folder.glob("*.py"):
            used |= set(harness.re.findall(r"cria_\w+", file.read_text()))
        kinds = {name[5:-5] for name in declared if name.endswith("_free")}
        used |= {f"cria_{kind}_free" for kind in kinds}
        # cria_generation_open_allowing does what this does, and cria_model_load what
        # the next ones do.
        used.add("cria_generation_open")
        used |= {"cria_model_bind", "cria_model_random"}
        self.assertEqual(declared - used - {"cria_status_name"}, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

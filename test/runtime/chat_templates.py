#!/usr/bin/env python3
"""The chat templates of data/chat, and expressions by the hundred, rendered by
Jinja as transformers sets it up and by libcria-text.so, which must agree.

usage: chat_templates.py LIBCRIA.SO FOLDER [CONVERSATIONS]
"""

import datetime
import json
import pathlib
import random
import sys
import warnings

import chat_snippets
import jinja2
import jinja2.ext
import jinja2.sandbox
import libcria
from nasty_strings import WORDS, nasty_strings

TEMPLATES = pathlib.Path(__file__).parent / "data" / "chat"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


class Generation(jinja2.ext.Extension):
    """{% generation %} as transformers renders it outside of training."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    result = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    class Namespace(jinja2.utils.Namespace):
        def __init__(*arguments, **attributes):
            attributes = dict(*arguments[1:], **attributes)
            if any(name.startswith("_") for name in attributes):
                raise jinja2.exceptions.SecurityError("an underscore")
            jinja2.utils.Namespace.__init__(arguments[0], attributes)

    result.filters["tojson"] = tojson
    result.globals["namespace"] = Namespace
    result.globals["raise_exception"] = raise_exception
    result.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return result


def as_transformers(variables):
    """What apply_chat_template of transformers 5.23 hands to a template."""
    messages = []
    for message in variables["messages"]:
        message = {key: value for key, value in message.items() if value is not None}
        names = ("reasoning_content", "thinking", "reasoning")
        reasoning = next((message[name] for name in names if name in message), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        messages.append(message)
    defaults = {"tools": None, "documents": None, "add_generation_prompt": False}
    return {**defaults, **TOKENS, **variables, "messages": messages}


class Both:
    """One template in both."""

    def __init__(self, library, folder, source):
        (folder / "chat_template.jinja").write_text(source, newline="")
        (folder / "tokenizer_config.json").write_text(json.dumps(TOKENS))
        self.theirs = self.refusal = None
        try:
            self.theirs = environment().from_string(source)
        except Exception as error:  # of Python's compiler, too
            self.refusal = error
        try:
            self.ours = libcria.Chat(library, folder)
        except libcria.Failure as failure:
            self.ours = failure

    def render(self, variables):
        """What ours and theirs say: texts, or failures as exceptions."""
        ours, theirs = self.ours, self.refusal
        if not isinstance(ours, libcria.Failure):
            try:
                ours = ours.render(variables)
            except libcria.Failure as failure:
                ours = failure
        if self.theirs:
            try:
                theirs = self.theirs.render(**as_transformers(variables))
            except Exception as error:  # of Python's kinds, too
                theirs = error
        return ours, theirs


UNIMPLEMENTED = 12


def agree(ours, theirs, may_refuse):
    """Equal texts, or failures both; or what ours refuses to do at all."""
    if isinstance(ours, str) and isinstance(theirs, str):
        return ours == theirs
    refused = isinstance(ours, libcria.Failure)
    if may_refuse and refused and ours.args[0] == UNIMPLEMENTED:
        return True
    return refused and not isinstance(theirs, str)


def tool(draw):
    kinds = {"city": {"type": "string", "description": "Größe & <b>'x'</b>"}}
    if draw.random() < 0.5:
        kinds["days"] = {"type": "integer", "enum": [1, 2.5, -3e20, True, None, 2**64 - 1, 2**63, -(2**100)]}
    function = {
        "name": draw.choice(["weather", "get_time"]),
        "description": draw.choice(WORDS),
        "parameters": {"type": "object", "properties": kinds, "required": ["city"]},
    }
    return {"type": "function", "function": function}


def tool_call(draw):
    arguments = {"city": draw.choice(WORDS), "n": draw.choice([1, 0.1, 1e16, "x"])}
    function = {"name": "weather", "arguments": arguments}
    return {"id": "abcd12345", "type": "function", "function": function}


def conversation(draw, texts):
    """The variables of a conversation: mostly sane, sometimes not."""
    messages = []
    if draw.random() < 0.5:
        messages.append({"role": "system", "content": draw.choice(texts)})
    for _ in range(draw.randrange(1, 5)):
        messages.append({"role": "user", "content": draw.choice(texts)})
        answer = {"role": "assistant", "content": draw.choice(texts)}
        if draw.random() < 0.2:
            answer["content"] = f"<think>\n{draw.choice(texts)}\n</think>\n\n{draw.choice(texts)}"
        if draw.random() < 0.2:
            answer[draw.choice(["reasoning", "thinking"])] = draw.choice([None, *texts])
        if draw.random() < 0.15:
            answer["tool_calls"] = [tool_call(draw)]
            answer["content"] = draw.choice([None, "", draw.choice(texts)])
            messages += [answer, {"role": "tool", "content": draw.choice(texts)}]
            messages[-1]["tool_call_id"] = "abcd12345"
            continue
        messages.append(answer)
    if draw.random() < 0.6:
        messages.append({"role": "user", "content": draw.choice(texts)})
    if draw.random() < 0.1:
        draw.shuffle(messages)
    if draw.random() < 0.05:
        messages[-1]["content"] = [{"type": "text", "text": draw.choice(texts)}]
    variables = {"messages": messages, "add_generation_prompt": draw.random() < 0.5}
    if draw.random() < 0.1:
        del variables["add_generation_prompt"]
    if draw.random() < 0.3:
        variables["tools"] = [tool(draw) for _ in range(draw.randrange(3))]
    if draw.random() < 0.2:
        variables["documents"] = [{"text": draw.choice(texts), "title": "t"}]
    if draw.random() < 0.2:
        variables["enable_thinking"] = draw.random() < 0.5
    if draw.random() < 0.1:
        variables["builtin_tools"] = ["code_interpreter", "weather"]
    if draw.random() < 0.1:
        variables["controls"] = {"citations": True}
    return variables


def check(name, both, cases, may_refuse=False):
    """Prints the first differences; whether there is none, and how many texts."""
    different, texts = [], 0
    for variables in cases:
        ours, theirs = both.render(variables)
        texts += isinstance(theirs, str)
        if not agree(ours, theirs, may_refuse):
            different.append((variables, ours, theirs))
    for variables, ours, theirs in different[:2]:
        print(f"{name}: {json.dumps(variables)[:150]}\n ours   {ours!r}\n theirs {theirs!r}")
    return not different, texts


def main():
    warnings.simplefilter("ignore")  # Python's, of expressions without sense
    library = libcria.Library(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 200
    strings = [text for text in nasty_strings(200, 1) if "\0" not in text]
    right = True
    for path in sorted(TEMPLATES.glob("*.jinja")):
        draw = random.Random(path.name)
        cases = [conversation(draw, strings) for _ in range(count)]
        both = Both(library, folder, path.read_text())
        same, texts = check(path.name, both, cases)
        print(f"{path.name}: {count} conversations, {texts} rendered")
        right &= same and texts > count / 20
    fixed = [conversation(random.Random(seed), strings[:20]) for seed in range(3)]
    for source in chat_snippets.SNIPPETS:
        same, _ = check(repr(source), Both(library, folder, source), fixed)
        right &= same
    combined = list(chat_snippets.combinations(random.Random(count), 10 * count))
    for source in chat_snippets.MAY_REFUSE + combined:
        both = Both(library, folder, source)
        same, _ = check(repr(source), both, fixed[:1], may_refuse=True)
        right &= same
    print(f"{len(chat_snippets.SNIPPETS)} snippets, {len(combined)} combined")
    sys.exit(not right)


if __name__ == "__main__":
    main()

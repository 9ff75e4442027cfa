"""The fields of requests, the shape of answers, and the words of errors."""

import base64
import json
import math
import shutil
import struct
import sys

import jsonschema

from serving import JSON, TINY, Server, Tools, check

PROMPT = "Once upon a time"
TEMPLATE = """{% for m in messages %}<{{ m.role }}>{{ m.content }}
{% endfor %}{% if add_generation_prompt %}<assistant>{{ prefix }}{% endif %}"""
SHORT = {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}


def schema(of, **more):
    """A response_format."""
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": of, **more}}


def check_error(server, path, body, status, words, param=None, code=None):
    """The error of a request is OpenAI's object, and names the field."""
    answer = server.post(path, body)
    check(answer.status == status, f"{path} {str(body)[:200]}: {answer}")
    error = answer.json["error"]
    check(error.keys() == {"message", "type", "param", "code"}, answer)
    check(words in error["message"], f"{path} {str(body)[:200]}: {error}, expected {words}")
    check(error["param"] == param, f"{error}, expected param {param}")
    check(code in (None, error["code"]), f"{error}, expected code {code}")


def check_fields(server):
    """Every wrong type and value is an error that names its field."""
    paths = {"/v1/completions": SHORT, "/v1/chat/completions": CHAT}
    wrong = {
        "temperature": ["hot", -1, True, [], 1e9],
        "top_p": ["x", -0.1, 1.1, {}],
        "top_k": ["x", -2, 1.5],
        "min_p": [2, "x"],
        "repetition_penalty": [0, "x"],
        "presence_penalty": [2.1, "x"],
        "frequency_penalty": [-2.1, []],
        "seed": ["x", 1.5, 1 << 70],
        "logit_bias": [[], {"x": 1}, {"1": 101}, {"1": "x"}, {"99999": 1}, {"-1": 1}],
        "max_tokens": ["x", -1, 1.5, 1 << 40],
        "min_tokens": [-1, "x"],
        "stop": [1, [1], "", [""], ["x"] * 17, "x" * 300, {}],
        "stop_token_ids": ["x", ["x"], [-1], [99999]],
        "ignore_eos": ["x", 1],
        "n": [0, "x", 129, 1.5],
        "stream": ["yes", 1],
        "stream_options": [1, {"x": 1}, {"include_usage": "x"}, {"include_usage": True}],
        "logprobs": ["x", {}, 21],
        "return_token_ids": ["x"],
        "skip_special_tokens": [0],
        "response_format": [
            {}, "text", {"type": 1}, {"type": "regex"}, {"type": "json_object", "x": 1},
            {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": []}},
            {"type": "json_schema", "json_schema": {"schema": {}, "x": 1}},
            *(schema({"type": "integer", **more}) for more in (
                {"multipleOf": 3}, {"minimum": 2, "maximum": 1}, {"type": "x"})),
        ],
        "grammar": [1, "root ::= (", "x ::= y", 'root ::= "a" nothing'],
        "model": [1, []],
    }
    for path, right in paths.items():
        for name, values in wrong.items():
            for value in values:
                param = "stream_options" if name == "stream_options" else name
                check_error(server, path, {**right, name: value}, 400, name, param)
        for name in ("unheard_of", "suffix" if "chat" in path else "messages"):
            words = f"'{name}' is no field of {path}"
            check_error(server, path, {**right, name: 1}, 400, words, name, "unknown_parameter")
        # Null is as if the field were not there.
        nulls = dict.fromkeys([*wrong, "unheard_of", "chat_template"])
        answer = server.post(path, {**right, **nulls})
        check(answer.status == 200, answer)
    harmless = {"user": "me", "metadata": {"a": 1}, "store": True, "service_tier": "auto"}
    check(server.complete(**SHORT, **harmless).status == 200, "harmless fields")
    call = {"function": {"name": "f", "arguments": ""}}  # without arguments
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    answer = server.post("/v1/chat/completions", {**CHAT, "messages": [message]})
    check(answer.status == 200, answer)


def check_grammars(server, tools, artifact):
    """Texts of a schema are JSON that it describes, with members in its order, and those
    that cria-run draws."""
    person = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 6},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "b": {"enum": ["x", "y", None]},
            "a": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
        },
        "required": ["name", "age", "b", "a"],
        "additionalProperties": False,
    }
    asked = {"max_tokens": 200, "temperature": 1, "seed": 5, "n": 3}
    form = schema(person, strict=True)
    answer = server.complete(PROMPT, **asked, response_format=form).json
    for index, choice in enumerate(answer["choices"]):
        check(choice["finish_reason"] == "stop", choice)
        value = json.loads(choice["text"])
        jsonschema.validate(value, person)
        check(list(value) == list(person["properties"]), value)
        run = tools.run(
            artifact, f"--weights={TINY}", f"--prompt={PROMPT}", "--max-tokens=200",
            "--temperature=1", f"--seed={5 + index}", f"--json-schema={json.dumps(person)}", "-q")
        alone = run.ok().text.removeprefix(PROMPT).rstrip("\n")
        check(choice["text"] == alone, f"{choice['text']!r}, cria-run {alone!r}")
    chat = {**CHAT, **asked, "response_format": {"type": "json_object"}, "max_tokens": 250}
    for choice in server.post("/v1/chat/completions", chat).json["choices"]:
        text = choice["message"]["content"]
        check(text.lstrip().startswith("{"), text)
        if choice["finish_reason"] == "stop":
            check(isinstance(json.loads(text), dict), text)
    answer = server.complete(PROMPT, **asked, grammar='root ::= "yes" | "no"').json
    check({choice["text"] for choice in answer["choices"]} <= {"yes", "no"}, answer)
    both = {**SHORT, "grammar": 'root ::= "a"', "response_format": form}
    check_error(server, "/v1/completions", both, 400, "together", "response_format")
    few = {**SHORT, "grammar": 'root ::= "a"', "min_tokens": 2}
    check_error(server, "/v1/completions", few, 400, "together", "min_tokens")


def check_tool_errors(chat):
    """Of a model whose template has no tools, too."""
    function = {"name": "f", "parameters": {}}
    tool = {"type": "function", "function": function}
    tools = {**CHAT, "tools": [tool]}
    chat(tools, 400, "template", "tools", "unsupported_value")
    for wrong in ({}, "x", [1], [{}], [{**tool, "type": "web_search"}], [{**tool, "x": 1}],
                  [tool, tool], [{**tool, "function": {**function, "parameters": []}}],
                  [{**tool, "function": {"name": "f()"}}], [{**tool, "function": {"name": ""}}],
                  [{**tool, "function": {"name": "f\0"}}]):
        chat({**CHAT, "tools": wrong}, 400, "tools", "tools")
    for wrong in ("any", 1, {}, {"type": "allowed_tools"}, {"type": "function"}, "required"):
        chat({**CHAT, "tool_choice": wrong}, 400, "tool_choice", "tool_choice")
    other = {"type": "function", "function": {"name": "g"}}
    chat({**tools, "tool_choice": other}, 400, "'g', which is none of 'tools'", "tool_choice")
    chat({**tools, "skip_special_tokens": False}, 400, "together", "skip_special_tokens")
    chat({**tools, "grammar": 'root ::= "a"'}, 400, "together", "grammar")
    chat({**tools, "tool_choice": "required", "min_tokens": 1}, 400, "together", "min_tokens")
    for call in (1, {}, {"function": {"name": "f"}}, {"function": {"arguments": "{}"}},
                 {"function": {"name": "f", "arguments": "[]"}},
                 {"function": {"name": "f", "arguments": "{"}},
                 {"type": "custom", "function": {"name": "f", "arguments": "{}"}}):
        message = {"role": "assistant", "tool_calls": [call]}
        chat({**CHAT, "messages": [message]}, 400, "messages", "messages")


def check_more_errors(server):
    def text(body, *expected):
        check_error(server, "/v1/completions", body, *expected)

    def chat(body, *expected):
        check_error(server, "/v1/chat/completions", body, *expected)

    text({}, 400, "'prompt' is missing", "prompt", "missing_required_parameter")
    text({"prompt": None}, 400, "'prompt' is missing", "prompt")
    for prompt in ([], [[]], [1, "x"], ["x", 1], [["x"]], {}, 7, True, [1.5], [-1], [None]):
        if prompt != [[]]:  # which is the id that begins a text
            text({"prompt": prompt}, 400, "prompt", "prompt", "invalid_value")
    text({"prompt": [1] * 256}, 400, "256 tokens", None, "context_length_exceeded")
    text({"prompt": "x" * 100_000}, 400, "100000 bytes", None, "context_length_exceeded")
    text({**SHORT, "model": "other"}, 404, "no model 'other'", "model", "model_not_found")
    text({**SHORT, "best_of": 2}, 400, "best_of", "best_of", "unsupported_value")
    text({**SHORT, "prompt": ["x"] * 20, "n": 100}, 400, "2000 texts", "n")
    text(b"[1]", 400, "no JSON object", None, "invalid_json")
    text(b'{"prompt": ', 400, "the body: at byte", None, "invalid_json")
    text(b'{"prompt":"a","prompt":"b"}', 400, "prompt", None, "invalid_json")
    text(b'{"prompt":"\xff"}', 400, "UTF-8", None, "invalid_json")
    text(b'{"prompt":"\\ud800"}', 400, "surrogate", None, "invalid_json")
    text(b"[" * 100_000, 400, "nested deeper", None, "invalid_json")

    chat({}, 400, "'messages' is missing", "messages")
    image = {"type": "image_url", "image_url": {"url": "http://x/y.png"}}
    for messages in ([], {}, "x", [1], [{}], [{"role": 1}], [{"role": "user", "content": 1}],
                     [{"role": "user", "content": [{"type": "text"}]}],
                     [{"role": "user", "content": [image]}]):
        chat({**CHAT, "messages": messages}, 400, "messages", "messages")
    chat({**CHAT, "top_logprobs": 2}, 400, "needs 'logprobs'", "top_logprobs")
    chat({**CHAT, "top_logprobs": 2, "logprobs": None}, 400, "needs 'logprobs'", "top_logprobs")
    check_tool_errors(chat)
    chat({**CHAT, "chat_template_kwargs": 1}, 400, "chat_template_kwargs", "chat_template_kwargs")
    for options, status in ({"headers": {"Content-Type": "text/plain"}}, 415), ({"headers": {}}, 415):
        answer = server.post("/v1/completions", SHORT, **options)
        check(answer.status == status, answer)
    check(server.get("/v1/completions").status == 405, "GET")
    check(server.post("/health", {}).status == 405, "POST")
    check(server.get("/nowhere").status == 404, "nowhere")
    check(server.get("/v1/models/other").status == 404, "no model")


def check_prompt_log_probabilities(server):
    """Those of `echo` are near those of a text that draws the same ids, and are what programs
    that score texts ask for."""
    drawn = server.complete(**{**SHORT, "max_tokens": 150}, logprobs=2, return_token_ids=True).json
    [drawn] = drawn["choices"]
    ids = drawn["prompt_token_ids"] + drawn["token_ids"]
    first = len(drawn["prompt_token_ids"])
    keys = ("tokens", "token_logprobs", "top_logprobs")
    # As lm-evaluation-harness does, for several prompts at once.
    asked = {"prompt": [ids, ids[:1], ids[:9]], "temperature": 0, "max_tokens": 1, "logprobs": 2,
             "seed": 1234, "echo": True}
    answer = server.post("/v1/completions", asked).json
    check([choice["index"] for choice in answer["choices"]] == [0, 1, 2], answer)
    for choice, prompt in zip(answer["choices"], asked["prompt"]):
        found = choice["logprobs"]
        check({len(found[key]) for key in found} == {len(prompt) + 1}, found)
        check(found["token_logprobs"][0] is None and found["top_logprobs"][0] is None, found)
        ours = list(zip(*(found[key][first : len(prompt)] for key in keys)))
        for mine, its in zip(ours, zip(*(drawn["logprobs"][key] for key in keys))):
            check(mine[0] == its[0] and mine[2][mine[0]] == mine[1] == max(mine[2].values()), mine)
            check(math.isclose(mine[1], its[1], rel_tol=0.01, abs_tol=1e-4), f"{mine}, drawn {its}")
        for offset, token in list(zip(found["text_offset"], found["tokens"]))[first:]:
            check(choice["text"][offset:].startswith(token), (offset, token, choice))
    events = server.post("/v1/completions", {**asked, "stream": True}).events
    for index, choice in enumerate(answer["choices"]):
        parts = [one for event in events for one in event["choices"] if one["index"] == index]
        check(parts[0]["logprobs"] == choice["logprobs"], parts)
    twice = {**asked, "prompt": PROMPT, "n": 2, "max_tokens": 0, "logprobs": 0}
    for choice in server.post("/v1/completions", twice).json["choices"]:
        found = choice["logprobs"]
        check(choice["text"] == PROMPT and found["top_logprobs"] is None, choice)
        check("".join(found["tokens"][-4:]) == PROMPT, found)


def check_completions(server, tools):
    answer = server.complete(**SHORT, logprobs=3, return_token_ids=True).json
    check(answer["object"] == "text_completion" and answer["model"] == "tiny", answer)
    check(answer["id"].startswith("cmpl-") and answer["created"] > 1e9, answer)
    usage = {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
    check(usage.items() <= answer["usage"].items(), answer)
    [choice] = answer["choices"]
    check(choice["text"] == ", there was a" and choice["finish_reason"] == "length", choice)
    found = choice["logprobs"]
    check("".join(found["tokens"]) == choice["text"], found)
    check(found["text_offset"] == [0, 1, 7, 11], found)
    for token, own, top in zip(*(found[k] for k in ("tokens", "token_logprobs", "top_logprobs"))):
        check(len(top) == 3 and top[token] == own == max(top.values()) <= 0, found)
    found = server.complete(**SHORT, logprobs=0).json["choices"][0]["logprobs"]
    check(len(found["tokens"]) == 4 and found["top_logprobs"] is None, found)
    ids = choice["prompt_token_ids"] + choice["token_ids"]
    again = server.post("/detokenize", {"tokens": ids}).json["prompt"]
    check(again.endswith(PROMPT + ", there was a"), again)
    check(server.complete(ids[:5], max_tokens=4, temperature=0).text == choice["text"], "by ids")

    check_prompt_log_probabilities(server)

    events = server.complete(**SHORT, stream=True, stream_options={"include_usage": True}).events
    check(events[-1]["choices"] == [] and usage.items() <= events[-1]["usage"].items(), events)
    check(all(event["usage"] is None for event in events[:-1]), events)
    parts = [event["choices"][0] for event in events[:-1]]
    check("".join(part["text"] for part in parts) == choice["text"], events)
    check([part["finish_reason"] for part in parts] == [None] * 3 + ["length"], events)

    for fields, text, finish in (
        ({"stop": " was"}, ", there", "stop"),
        ({"stop": ["zzz", "re w"]}, ", the", "stop"),
        ({"stop": [], "max_tokens": 2}, ", there", "length"),
        ({"max_tokens": 0}, "", "length"),
        ({"echo": True}, PROMPT + ", there was a", "length"),
        ({"echo": True, "max_tokens": 0}, PROMPT, "length"),
        ({"stop_token_ids": [ids[6]]}, ", there", "stop"),
        ({"stop_token_ids": [ids[6]], "min_tokens": 3}, None, None),
        ({"logit_bias": {str(ids[5]): -100}}, None, None),
        ({"presence_penalty": 2, "frequency_penalty": 0, "max_tokens": 3}, ", there was", "length"),
        ({"temperature": 1, "top_k": 1}, ", there was a", "length"),
        ({"temperature": 1, "top_p": 0}, ", there was a", "length"),
        ({"temperature": 1, "min_p": 1}, ", there was a", "length"),
    ):
        [one] = server.complete(**{**SHORT, **fields}).json["choices"]
        if text is None:
            check(one["text"] != choice["text"] and "there was" not in one["text"], one)
        else:
            check((one["text"], one["finish_reason"]) == (text, finish), f"{fields}: {one}")
        events = server.complete(**{**SHORT, **fields}, stream=True).events
        check("".join(e["choices"][0]["text"] for e in events) == one["text"], events)
    penalties = {"frequency_penalty": 2, "presence_penalty": 2, "temperature": 0, "max_tokens": 60}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in penalties.items()]
    artifact = [tools.scratch / "plain.cria", f"--weights={TINY}", f"--prompt={PROMPT}"]
    printed = tools.run(*artifact, *flags).ok().text
    penalized = server.complete(PROMPT, **penalties).text
    check(printed == PROMPT + penalized, f"penalties: {penalized!r}, expected {printed!r}")
    plain = server.complete(PROMPT, temperature=0, max_tokens=60).text
    check(penalized != plain, "penalties change the text")
    drawn = {server.complete(PROMPT, temperature=1, max_tokens=20).text for _ in range(5)}
    check(len(drawn) > 1, "each request draws its own seed")
    long = server.complete(PROMPT, temperature=0, max_tokens=9999, ignore_eos=True).json
    check(long["usage"]["total_tokens"] == 256, "a text ends where the context is full")
    twice = [server.complete([7] * 40, max_tokens=1).json["usage"] for _ in range(2)]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in twice]
    check(cached == [0, 32], f"pages of a prompt are found again: {cached}")


def check_chat(server):
    answer = server.post("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 2}).json
    check(answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-"), answer)
    [choice] = answer["choices"]
    message = choice["message"]
    check(message["role"] == "assistant" and choice["finish_reason"] == "length", choice)
    content = choice["logprobs"]["content"]
    answer = server.post("/v1/chat/completions", {**CHAT, "logprobs": True}).json
    alone = answer["choices"][0]["logprobs"]["content"]
    check(alone == [{**one, "top_logprobs": []} for one in content], answer)
    check("".join(bytes(one["bytes"]).decode() for one in content) == message["content"], content)
    for one in content:
        check(len(one["top_logprobs"]) == 2 and one["logprob"] <= 0, one)
        check(one["top_logprobs"][0]["token"] == one["token"], one)
    events = server.post("/v1/chat/completions", {**CHAT, "stream": True}).events
    deltas = [event["choices"][0]["delta"] for event in events]
    check([d.get("role") for d in deltas] == ["assistant"] + [None] * (len(deltas) - 1), events)
    check("".join(d.get("content", "") for d in deltas) == message["content"], events)

    # The template writes the prompt; parts are joined; what follows is the completion's.
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    joined = {**CHAT, "messages": [{"role": "user", "content": parts}]}
    check(server.post("/v1/chat/completions", joined).json["choices"] ==
          server.post("/v1/chat/completions", CHAT).json["choices"], "parts")
    asked = {**CHAT, "chat_template_kwargs": {"prefix": "Well"}}
    asked = {k: v for k, v in asked.items() if k in ("messages", "chat_template_kwargs")}
    text = server.post("/apply-template", asked).json["prompt"]
    check(text == "<user>Hello\n<assistant>Well", text)
    tokens = server.post("/tokenize", asked).json
    check(tokens["count"] == len(tokens["tokens"]) and tokens["max_model_len"] == 256, tokens)
    check(server.post("/detokenize", {"tokens": tokens["tokens"]}).json["prompt"] == text, text)
    most = {**CHAT, "max_tokens": 9, "max_completion_tokens": 3}
    usage = server.post("/v1/chat/completions", most).json["usage"]
    check(usage["completion_tokens"] == 3, usage)


def check_responses(server):
    def refuses(words, param, code=None, **fields):
        body = {"input": "Hello", "max_output_tokens": 4, **fields}
        check_error(server, "/v1/responses", body, 400, words, param, code)

    refuses("'input' is missing", "input", "missing_required_parameter", input=None)
    image = {"type": "input_image", "image_url": "http://x/y.png"}
    for wrong in (1, {}, [], [1], [{}], [{"role": "user"}], [{"role": "user", "content": [image]}],
                  [{"type": "function_call_output", "call_id": "1"}], [{"type": "reasoning"}],
                  [{"type": "function_call", "call_id": "1", "name": "f", "arguments": "1"}],
                  [{"type": "function_call_output", "call_id": "1", "output": [image]}],
                  [{"role": "user", "content": "x", "unheard_of": 1}]):
        refuses("input", "input", input=wrong)
    for name, value in {
        "previous_response_id": "resp_1", "conversation": "c", "prompt": {"id": "p"},
        "store": True, "background": True, "truncation": "auto", "tools": [{"type": "web_search"}],
        "tool_choice": {"type": "web_search"}, "include": ["x"], "stream_options": {"include_usage": True},
    }.items():
        refuses(name, name, "unsupported_value", **{name: value})
    for name, value in {
        "instructions": 1, "metadata": {"a": 1}, "max_output_tokens": 0, "stream": 1,
        "top_p": 2, "tool_choice": "required", "parallel_tool_calls": 1,
    }.items():
        refuses(name, name, "invalid_value", **{name: value})
    tool = {"type": "function", "name": "f"}
    for wrong in ("x", [1], [{**tool, "x": 1}], [{"type": "function", "function": {"name": "f"}}],
                  [tool, tool], [{**tool, "name": "a b"}]):
        refuses("tools", "tools", tools=wrong)
    refuses("writes no calls", "tools", "unsupported_value", tools=[tool])
    refuses("none of 'tools'", "tool_choice", tools=[tool], tool_choice={**tool, "name": "g"})
    for wrong in (1, {"verbosity": "low"}, {"format": {}}, {"format": {"type": "json_schema"}},
                  {"format": {"type": "json_schema", "schema": {"multipleOf": 3, "type": "integer"}}}):
        refuses("text", "text", text=wrong)
    for name in ("n", "messages", "logprobs", "reasoning"):
        refuses("is no field of /v1/responses", name, "unknown_parameter", **{name: 1})
    both = {"input": "Hello", "max_output_tokens": 4, "temperature": 0, "store": False}
    answer = server.post("/v1/responses", {**both, "text": {"format": {"type": "json_object"}}}).json
    check(answer["output"][0]["content"][0]["text"].startswith("{"), answer)
    check(answer["text"] == {"format": {"type": "json_object"}}, answer)
    check(answer["tool_choice"] == "auto" and answer["tools"] == [], answer)
    asked = {"tools": [tool], "tool_choice": "none"}  # which the model is not shown
    answer = server.post("/v1/responses", {**both, **asked}).json
    check({name: answer[name] for name in asked} == asked, answer)
    form = {"format": {"type": "json_schema", "name": "it", "schema": True}}
    check(server.post("/v1/responses", {**both, "text": form}).json["text"] == form, form)


def check_embeddings(server, tools):
    answer = server.post("/v1/embeddings", {"input": [PROMPT, [1, 2, 3]]}).json
    first, second = (one["embedding"] for one in answer["data"])
    check(answer["usage"]["prompt_tokens"] == 8 and len(first) == 96, answer["usage"])
    check(abs(math.fsum(x * x for x in second) - 1) < 1e-6, "its length is 1")
    flags = [f"--weights={TINY}", f"--prompt={PROMPT}", "--embedding", "--normalize"]
    expected = json.loads(tools.run(tools.scratch / "plain.cria", *flags).ok().text)
    check(max(abs(a - b) for a, b in zip(first, expected)) < 1e-6, "as cria-run's")
    asked = {"input": PROMPT, "encoding_format": "base64"}
    coded = server.post("/v1/embeddings", asked).json["data"][0]["embedding"]
    check(list(struct.unpack("<96f", base64.b64decode(coded))) == first, coded)
    for field, value in {"encoding_format": "x", "input": [], "dimensions": 5}.items():
        check_error(server, "/v1/embeddings", {**asked, field: value}, 400, field, field)


def check_tokens(server):
    tokens = server.post("/tokenize", {"prompt": PROMPT}).json
    check(tokens["count"] == 5 == len(tokens["tokens"]), tokens)
    bare = server.post("/tokenize", {"prompt": PROMPT, "add_special_tokens": False}).json
    check(bare["tokens"] == tokens["tokens"][-bare["count"] :], bare)
    check_error(server, "/tokenize", {"prompt": ["a", "b"]}, 400, "several", "prompt")
    check_error(server, "/detokenize", {}, 400, "'tokens' is missing", "tokens")
    check(server.post("/detokenize", {"tokens": []}).json == {"prompt": ""}, "no tokens")
    models = server.get("/v1/models").json["data"]
    check([m["id"] for m in models] == ["tiny"] and models[0]["max_model_len"] == 256, models)
    check(server.get("/v1/models/tiny").json == models[0], models)
    page = server.get("/")
    check("default-src 'none'" in page.headers["content-security-policy"], page.headers)
    check(b"innerHTML" not in page.body and len(page.body) < 30_000, "the page")
    head = server.request("HEAD", "/", headers={})
    check(head.status == 200 and head.body == b"", head)
    check(int(head.headers["content-length"]) == len(page.body), head.headers)


def check_keys(tools, artifact):
    """With keys, everything but the health and the page needs one; keys share no pages."""
    keys = tools.scratch / "keys"
    keys.write_text("first key\n\nsecond\n")
    options = [f"--api-key-file={keys}", "--host=0.0.0.0", "--cors=https://a.example"]
    with Server(tools, artifact, *options) as server:
        def ask(key, path="/v1/completions"):
            headers = {**JSON, "Authorization": key} if key else JSON
            return server.post(path, {"prompt": [7] * 40, "max_tokens": 1}, headers)

        for key in (None, "Bearer wrong", "Bearer ", "Basic second", "second", "Bearer secondx"):
            answer = ask(key)
            check(answer.status == 401 and answer.headers["www-authenticate"] == "Bearer", answer)
        usages = [ask(f"Bearer {key}").json["usage"] for key in ("first key", "second", "second")]
        cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
        check(cached == [0, 0, 32], f"pages of other keys are not found: {cached}")
        check(server.get("/health").status == 200 and server.get("/").status == 200, "open")
        check(server.get("/metrics").status == 401, "metrics")
        check(server.get("/v1/models").status == 401, "models")
        asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        flight = server.request("OPTIONS", "/v1/completions", headers=asked)
        allowed = flight.headers.get("access-control-allow-origin")
        check(flight.status == 204 and allowed == "https://a.example", flight)
        other = server.request("OPTIONS", "/v1/completions", headers={"Origin": "https://b.example"})
        check("access-control-allow-origin" not in other.headers, other)
    with Server(tools, artifact, env={"CRIA_API_KEY": "k"}) as server:
        check(server.get("/v1/models").status == 401, "the key of the environment")
        check(server.get("/v1/models", {"Authorization": "bearer k"}).status == 200, "it")


def check_pool(tools, artifact):
    """A text that outgrows the pages of all is the client's error, as a prompt is."""
    with Server(tools, artifact, "--pages=3") as server:
        asked = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True}
        room = 48 - server.complete(**asked, max_tokens=1).json["usage"]["prompt_tokens"]
        server.complete(**asked, max_tokens=room + 1)
        long = {**asked, "max_tokens": room + 2}
        check_error(server, "/v1/completions", long, 400, "the text has 49 tokens", None,
                    "context_length_exceeded")
        check_error(server, "/v1/completions", {**asked, "prompt": [1] * 60}, 400, "pages")
        failed = server.metrics()['request_failure_total{reason="internal"}']
        check(failed == 0, f"{failed} failures of the server")


def check_defaults(tools, artifact):
    """Sampling defaults are the checkpoint's, or OpenAI's."""
    folder = tools.scratch / "greedy"
    shutil.copytree(TINY, folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 767, "stop_strings": " was"}')
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    with Server(tools, artifact, weights=folder) as server:
        texts = {server.complete(PROMPT).text for _ in range(3)}
        check(texts == {", there"}, f"greedy, to the checkpoint's stop string: {texts}")
        check(len({server.complete(PROMPT, top_p=0.99, stop=[]).text for _ in range(8)}) > 1, "top_p")
        chat = server.post("/v1/chat/completions", CHAT)
        check(chat.status == 400 and chat.json["error"]["code"] == "no_chat_template", chat)
        found = server.post("/v1/embeddings", {"input": [[1, 2], [1, 3], [2, 3]]}).json["data"]
        first, same, other = (one["embedding"] for one in found)
        check(first == same != other, "pooled as the checkpoint says: the first")
    with Server(tools, artifact, "--generation-config=none", weights=folder) as server:
        check(len({server.complete(PROMPT, stop=[]).text for _ in range(8)}) > 1, "temperature 1")


def main():
    tools = Tools(*sys.argv[1:3])
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    tools.compile(TINY / "config.json", out="plain.cria")
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    with Server(tools, artifact, weights=folder) as server:
        check_fields(server)
        check_grammars(server, tools, artifact)
        check_more_errors(server)
        check_completions(server, tools)
        check_chat(server)
        check_responses(server)
        check_embeddings(server, tools)
        check_tokens(server)
    check_keys(tools, artifact)
    check_pool(tools, artifact)
    check_defaults(tools, artifact)


main()

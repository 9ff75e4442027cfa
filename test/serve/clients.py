"""OpenAI's own client: its objects have what it expects, and its errors are raised."""

import contextlib
import json
import shutil
import sys
import typing

import openai
import pydantic

from serving import TINY, Server, Tools, check

MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "Once"}]}]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Says the weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"$ref": "#/$defs/city"}},
                "required": ["city"],
                "additionalProperties": False,
                "$defs": {"city": {"enum": ["Kyiv", "Oslo"]}},
            },
        },
    }
    for name in ("get_weather", "get_forecast")
]
# Templates that write calls as families of models do.
CALLS = {
    "hermes": "\n<tool_call>\n{{ c.function | tojson }}\n</tool_call>",
    "mistral": "{% if loop.first %}[TOOL_CALLS] [{% endif %}{{ c.function | tojson }}"
    "{{ ']' if loop.last else ', ' }}",
    "llama": '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}',
}


def check_completions(client):
    asked = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**asked, logprobs=2)
    check(whole.choices[0].text == ", there was a little fox named Tom", whole)
    check(len(whole.choices[0].logprobs.top_logprobs) == 8, whole)
    parts = list(client.completions.create(**asked, stream=True))
    check("".join(part.choices[0].text for part in parts) == whole.choices[0].text, parts)
    seeded = {**asked, "temperature": 1, "seed": 7, "n": 3}
    texts = [[one.text for one in client.completions.create(**seeded).choices] for _ in range(2)]
    check(texts[0] == texts[1] and len(set(texts[0])) > 1, texts)


def check_chat(client):
    asked = {"model": "tiny", "messages": MESSAGES, "max_completion_tokens": 6, "temperature": 0}
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=3)
    [choice] = whole.choices
    check(choice.finish_reason == "length" and choice.message.role == "assistant", whole)
    check(len(choice.logprobs.content) == 6, whole)
    usage = {"include_usage": True}
    parts = list(client.chat.completions.create(**asked, stream=True, stream_options=usage))
    check(parts[-1].usage.completion_tokens == 6 and not parts[-1].choices, parts)
    text = "".join(part.choices[0].delta.content or "" for part in parts[:-1])
    check(text == choice.message.content, parts)
    with client.chat.completions.create(**{**asked, "max_completion_tokens": 200}, stream=True) as s:
        next(iter(s))  # and leaves


def check_responses(client):
    """A response is the text of the chat with the same messages, whole and by events."""
    chat = {"model": "tiny", "temperature": 0, "max_completion_tokens": 6, "messages": [
        {"role": "system", "content": "Hi."}, *MESSAGES]}
    text = client.chat.completions.create(**chat).choices[0].message.content
    part = {"type": "input_text", "text": "Once"}
    asked = {"model": "tiny", "temperature": 0, "max_output_tokens": 6, "instructions": "Hi.",
             "metadata": {"a": "b"}, "store": False}
    for given in ("Once", [{"role": "user", "content": [part]}]):
        made = client.responses.create(**asked, input=given)
        check(made.output_text == text and made.status == "incomplete", made)
        check(made.incomplete_details.reason == "max_output_tokens", made)
        check((made.metadata, made.instructions) == ({"a": "b"}, "Hi."), made)
        check((made.temperature, made.max_output_tokens, made.store) == (0, 6, False), made)
        check(made.usage.output_tokens == 6, made)
        check(made.usage.total_tokens == made.usage.input_tokens + 6, made)
    events = list(client.responses.create(**asked, input="Once", stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    deltas = kinds.count("output_text.delta")
    check(kinds == ["created", "in_progress", "output_item.added", "content_part.added",
                    *["output_text.delta"] * deltas, "output_text.done", "content_part.done",
                    "output_item.done", "incomplete"], kinds)
    check([event.sequence_number for event in events] == list(range(len(events))), events)
    check("".join(event.delta for event in events[4:-4]) == text == events[-4].text, events)
    check(events[-1].response.output_text == text and deltas > 1, events[-1])
    # The output is the input of the next response.
    turns = [{"role": "user", "content": "Once"}, *made.output, {"role": "user", "content": "x"}]
    messages = [{"role": "user", "content": "Once"}, {"role": "assistant", "content": text},
                {"role": "user", "content": "x"}]
    del asked["instructions"]
    check(client.responses.create(**asked, input=turns).output_text ==
          client.chat.completions.create(**{**chat, "messages": messages}).choices[0].message.content,
          "turns")

    class City(pydantic.BaseModel):
        name: typing.Literal["Kyiv", "Oslo"]
        people: int

    asked = {"model": "tiny", "input": "Once", "text_format": City, "temperature": 0}
    parsed = client.responses.parse(**asked)
    check(parsed.status == "completed" and parsed.output_parsed.name in ("Kyiv", "Oslo"), parsed)
    with client.responses.stream(**asked) as stream:
        streamed = stream.get_final_response()
    check(streamed.output_parsed == parsed.output_parsed, streamed)


def check_errors(client):
    def fails(kind, **fields):
        try:
            client.completions.create(**{"model": "tiny", "prompt": "x", **fields})
        except kind as error:
            return error
        sys.exit(f"{fields}: expected {kind}")

    error = fails(openai.BadRequestError, temperature=-1)
    check(error.param == "temperature" and error.code == "invalid_value", error)
    check(fails(openai.NotFoundError, model="other").code == "model_not_found", "model")
    fails(openai.BadRequestError, extra_body={"unheard_of": 1})
    stranger = openai.OpenAI(base_url=client.base_url, api_key="other", max_retries=0)
    try:
        stranger.models.list()
    except openai.AuthenticationError as error:
        check(error.code == "invalid_api_key", error)


def call_tools(client, text="Once upon a time", **fields):
    """The choice of a reply to tools, which is the same by a stream."""
    asked = {"model": "tiny", "messages": [{"role": "user", "content": text}], "tools": TOOLS,
             "temperature": 0, "max_completion_tokens": 100, **fields}
    [choice] = client.chat.completions.create(**asked).choices
    parts = [part.choices[0] for part in client.chat.completions.create(**asked, stream=True)]
    content = "".join(part.delta.content or "" for part in parts)
    check((content or None) == choice.message.content, f"{content!r}, expected {choice}")
    calls = [call for part in parts for call in part.delta.tool_calls or []]
    check([call.index for call in calls] == list(range(len(calls))), calls)
    whole, streamed = ([(call.function.name, call.function.arguments) for call in found]
                       for found in (choice.message.tool_calls or [], calls))
    check(whole == streamed, f"{streamed}, expected {whole}")
    check(parts[-1].finish_reason == choice.finish_reason, parts)
    if choice.finish_reason != "length":  # which openai-python's helper raises
        with client.chat.completions.stream(**asked) as stream:
            made = stream.get_final_completion().choices[0].message
        check(len(made.tool_calls or []) == len(calls), made)
    return choice


def check_forced_calls(client, format):
    """A call that must be is one of the tools', in each format; it goes back to the model."""
    for tool_choice, names in (
        ("required", {"get_weather", "get_forecast"}),
        ({"type": "function", "function": {"name": "get_forecast"}}, {"get_forecast"}),
    ):
        choice = call_tools(client, tool_choice=tool_choice, parallel_tool_calls=False)
        check(choice.finish_reason == "tool_calls" and choice.message.content is None, choice)
        [call] = choice.message.tool_calls
        check(call.type == "function" and len(call.id) == 9, call)
        check(call.function.name in names, call)
        check(json.loads(call.function.arguments)["city"] in ("Kyiv", "Oslo"), call)
    messages = [
        *MESSAGES,
        choice.message.model_dump(),
        {"role": "tool", "tool_call_id": call.id, "content": "Snow."},
    ]
    prompt = client.post("../apply-template", body={"messages": messages, "tools": TOOLS},
                         cast_to=object)["prompt"]
    written = json.dumps(json.loads(call.function.arguments))
    check(written in prompt and "Snow." in prompt, f"{format}: {prompt}")


def respond(client, given="Once upon a time", **fields):
    """The response to tools, which is the same by a stream."""
    asked = {"model": "tiny", "input": given, "temperature": 0, "max_output_tokens": 100,
             "tools": [{"type": "function", **tool["function"]} for tool in TOOLS], **fields}
    whole = client.responses.create(**asked)
    events = list(client.responses.create(**asked, stream=True))
    if whole.status == "completed":  # which openai-python's helper waits for
        with client.responses.stream(**asked) as stream:
            made = stream.get_final_response()
        check(len(made.output) == len(whole.output), made)
    plain = [[{key: value for key, value in item.model_dump().items() if key not in ("id", "call_id")}
              for item in response.output] for response in (events[-1].response, whole)]
    check(plain[0] == plain[1], f"{plain[0]}, expected {plain[1]}")
    check([event.sequence_number for event in events] == list(range(len(events))), events)
    for index, item in enumerate(events[-1].response.output):
        own = [event for event in events if getattr(event, "output_index", None) == index]
        check(own[0].type == "response.output_item.added", own)
        check(own[-1].type == "response.output_item.done" and own[-1].item == item, own)
        if item.type == "function_call":
            delta, done = own[1:-1]
            check(delta.delta == done.arguments == item.arguments and done.item_id == item.id, own)
    return whole


def check_response_calls(client):
    """A response must call as a chat must, and its calls are input of the next one."""
    choice = {"type": "function", "name": "get_forecast"}
    made = respond(client, tool_choice=choice, parallel_tool_calls=False)
    check(made.status == "completed" and made.tool_choice.model_dump() == choice, made)
    check(made.parallel_tool_calls is False and len(made.tools) == 2, made)
    [call] = made.output
    check((call.type, call.name, call.status) == ("function_call", "get_forecast", "completed"), call)
    check(json.loads(call.arguments)["city"] in ("Kyiv", "Oslo"), call)
    turns = [{"role": "user", "content": "Once"}, call,
             {"type": "function_call_output", "call_id": call.call_id, "output": "Snow."}]
    next = respond(client, turns, max_output_tokens=6, tool_choice="none")
    check(next.tool_choice == "none" and len(next.tools) == 2, next)
    function = {"name": call.name, "arguments": call.arguments}
    messages = [
        {"role": "user", "content": "Once"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": call.call_id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call.call_id, "content": "Snow."},
    ]
    text = client.chat.completions.create(model="tiny", messages=messages, temperature=0,
                                          max_completion_tokens=6).choices[0].message.content
    check(next.output_text == text and next.usage.input_tokens > 10, f"{next}, expected {text!r}")


def check_calls(tools, artifact, format):
    """Calls of tools in a format, by a model that likes to write them: its likeliest tokens
    are renamed."""
    folder = tools.scratch / format
    shutil.copytree(TINY, folder)
    template = """{% if tools %}Hi. {% endif %}{% for m in messages %}{{ m.content or '' }}
{%- for c in m.tool_calls or [] %}CALL{% endfor %}{% endfor %}"""
    (folder / "chat_template.jinja").write_text(template.replace("CALL", CALLS[format]))
    asked = {"max_completion_tokens": 6, "extra_body": {"return_token_ids": True}}
    with open_client(tools, artifact, folder) as client:
        check_forced_calls(client, format)
        check_response_calls(client)
        plain = call_tools(client, **asked)
        check(plain.message.tool_calls is None and plain.finish_reason == "length", plain)
        without = call_tools(client, **asked, tool_choice="none")
        check(len(without.prompt_token_ids) < len(plain.prompt_token_ids), "tools are not shown")
    one, two = ('{"name": "%s", "%s": {"city": %d}}' % (
        name, "parameters" if format == "llama" else "arguments", i)
        for i, name in enumerate(("get_weather", "get_forecast")))
    texts = {
        "hermes": ["Well.", "<tool", "_call>" + one, "</tool_call>\n<tool_call>", two + "</tool_call>"],
        "mistral": ["Well.", "[TOOL_CALLS]", "[" + one, ", " + two, " ]\n "],
        "llama": ["\n \n", "<|python_tag|>", one, ";\n ", two],
    }[format]
    ids = plain.token_ids
    check(len(set(ids)) == 6 and not set(ids) & set(plain.prompt_token_ids), plain)
    texts.append(" \n \n")
    rename(folder / "tokenizer.json", dict(zip(ids, texts)), ids[1] if format != "hermes" else None)
    with open_client(tools, artifact, folder) as client:
        both = call_tools(client, extra_body={"stop_token_ids": ids[5:]})
        check(both.finish_reason == "tool_calls", both)
        check(both.message.content == (None if format == "llama" else "Well."), both)
        found = [(call.function.name, call.function.arguments) for call in both.message.tool_calls]
        check(found == [("get_weather", '{"city": 0}'), ("get_forecast", '{"city": 1}')], both)
        response = respond(client, max_output_tokens=5)
        messages = ["".join(part.text for part in item.content)
                    for item in response.output if item.type == "message"]
        check(messages == ([] if format == "llama" else ["Well."]), response)
        calls = [(item.name, item.arguments) for item in response.output[len(messages):]]
        check(calls == found and response.status == "incomplete", response)
        single = respond(client, max_output_tokens=5, parallel_tool_calls=False)
        check(len(single.output) == len(messages) + 1, single)
        first = call_tools(client, extra_body={"stop_token_ids": ids[5:]}, parallel_tool_calls=False)
        check(len(first.message.tool_calls) == 1, first)
        cut = call_tools(client, max_completion_tokens=4 if format == "mistral" else 2)
        check(cut.finish_reason == "length" and not cut.message.tool_calls, cut)
        check(cut.message.content.startswith(texts[0]), cut)
        text = call_tools(client, "Hi. Once upon a time", max_completion_tokens=6,
                          tool_choice="none")
        check(not text.message.tool_calls and "get_weather" in text.message.content, text)


def rename(path, texts, special):
    """Has ids of a tokenizer with byte-level tokens stand for other texts; `special` becomes
    a special token."""
    document = json.loads(path.read_text())
    model = document["model"]
    old = {id: token for token, id in model["vocab"].items() if id in texts}
    model["merges"] = [merge for merge in model["merges"] if not set(
        [*(parts := merge if isinstance(merge, list) else merge.split(" ")), "".join(parts)]
    ) & set(old.values())]
    for id, text in texts.items():
        del model["vocab"][old[id]]
        model["vocab"][text.replace(" ", "\u0120").replace("\n", "\u010a")] = id
    if special is not None:
        document["added_tokens"].append({**document["added_tokens"][-1], "id": special,
                                         "content": texts[special], "special": True})
        document["added_tokens"].sort(key=lambda token: token["id"])
    path.write_text(json.dumps(document))


@contextlib.contextmanager
def open_client(tools, artifact, folder):
    with Server(tools, artifact, "--name=tiny", env={"CRIA_API_KEY": "key"}, weights=folder) as server:
        url = f"http://{server.host}:{server.port}/v1"
        yield openai.OpenAI(base_url=url, api_key="key", max_retries=0, timeout=60)


def main():
    tools = Tools(*sys.argv[1:3])
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    with Server(tools, artifact, env={"CRIA_API_KEY": "key"}, weights=folder) as server:
        url = f"http://{server.host}:{server.port}/v1"
        client = openai.OpenAI(base_url=url, api_key="key", max_retries=0, timeout=60)
        check([model.id for model in client.models.list()] == ["tiny"], "models")
        check_completions(client)
        check_chat(client)
        check_responses(client)
        check_errors(client)
        found = client.embeddings.create(model="tiny", input=["Once", "Twice"]).data
        check([one.index for one in found] == [0, 1] and len(found[0].embedding) == 96, found)
    for format in CALLS:
        check_calls(tools, artifact, format)


main()

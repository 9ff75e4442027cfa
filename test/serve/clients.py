"""OpenAI's own client: its objects have what it expects, and its errors are raised."""

import shutil
import sys

import openai

from serving import TINY, Server, Tools, check

MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "Once"}]}]


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


def main():
    tools = Tools(*sys.argv[1:3])
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    artifact = tools.compile(TINY / "config.json", "--batch=4")
    plain = tools.compile(TINY / "config.json", out="plain.cria")
    options = ["--embeddings=" + str(plain)]
    with Server(tools, artifact, *options, env={"CRIA_API_KEY": "key"}, weights=folder) as server:
        url = f"http://{server.host}:{server.port}/v1"
        client = openai.OpenAI(base_url=url, api_key="key", max_retries=0, timeout=60)
        check([model.id for model in client.models.list()] == ["tiny"], "models")
        check_completions(client)
        check_chat(client)
        check_errors(client)
        found = client.embeddings.create(model="tiny", input=["Once", "Twice"]).data
        check([one.index for one in found] == [0, 1] and len(found[0].embedding) == 96, found)


main()

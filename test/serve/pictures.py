"""pictures.py BIN SCRATCH: chats with images, as cria-run --image answers them.

The models, their processors and the files are those of test/e2e/images.py, whose replies are
transformers'. The rows of an image of Gemma 3 see one another, and are more than a window,
and more than the chunks of prompts have.
"""

import base64
import json
import struct
import subprocess
import sys
import zlib

from serving import Server, Tools, at_once, check

import images  # isort: skip

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
QUESTION = "What is this?"
GREEDY = {"temperature": 0, "max_tokens": images.NEW}


def url_of(file, size=None):
    """The first `size` bytes of a file, or all."""
    kind = "jpeg" if file.endswith("jpg") else "png"
    bytes = (images.FOLDER / file).read_bytes()[:size]
    return f"data:image/{kind};base64,{base64.b64encode(bytes).decode()}"


def image(url):
    return {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}


def asked(*parts, **fields):
    """A request of images, and a question."""
    content = [*parts, {"type": "text", "text": QUESTION}]
    return {"messages": [{"role": "user", "content": content}], **GREEDY, **fields}


def reply(server, *files, **fields):
    answer = server.post(CHAT, asked(*(image(url_of(file)) for file in files), **fields))
    check(answer.status == 200, answer)
    return [choice["message"]["content"] for choice in answer.json["choices"]], answer.json["usage"]


def check_replies(server, folder, artifact, tools):
    """A reply is that of cria-run, alone and beside others."""
    expected = {}
    for files in ((), ("photo.jpg",), ("photo.jpg", "tall.png")):
        given = [f"--image={images.FOLDER / file}" for file in files]
        parts = [f"--part={part}" for part in folder.parts if files]
        flags = [f"--weights={folder.path}", "--chat", "--temperature=0", f"-n{images.NEW}", "-q"]
        command = tools.run_command(artifact, *flags, *given, *parts)
        done = subprocess.run(command, input=QUESTION, capture_output=True, text=True)
        check(done.returncode == 0, done)
        expected[files] = done.stdout.removesuffix("\n")
    counts = []
    for files, text in expected.items():
        (found,), usage = reply(server, *files)
        check(found == text, f"{files}: {found!r}, cria-run says {text!r}")
        counts.append(usage["prompt_tokens"])
    # A line's end is beside each image.
    check(counts[2] - counts[1] == counts[1] - counts[0] > 5, f"ids of prompts: {counts}")
    found = at_once([lambda files=files: reply(server, *files, n=2)[0] for files in [*expected] * 2])
    wanted = [[text] * 2 for text in [*expected.values()] * 2]
    check(found == wanted, f"at once: {found}, expected {wanted}")
    check(len({*expected.values()}) == 3, f"images change nothing: {expected}")


def check_starts(tools, folder, artifact, other):
    """Parts and artifacts with which the server does not start; `other` is a folder of
    another model."""

    def refused(artifact, parts, problem):
        options = [f"--weights={folder.path}", "--port=0", *(f"--part={part}" for part in parts)]
        done = subprocess.run(
            [tools.bin / "cria-serve", artifact, *options], capture_output=True, text=True
        )
        check(done.returncode == 1 and problem in done.stderr, f"{done}, expected {problem!r}")

    vision, projector = folder.parts
    refused(artifact, [vision], "part 'projector' is missing: give --part=FILE")
    refused(artifact, [vision] * 2, "is part 'vision', expected one for each part that reads")
    refused(artifact, [vision, artifact], "is part '', expected one for each part that reads")
    refused(artifact, [other.parts[0], projector], "numbers, the tower makes ")
    source = tools.scratch / "gemma3.json"
    short = tools.compile(source, "--plain", "--batch=2", "--chunk=3", out="short.cria")
    refused(short, folder.parts, "short.cria: an image has 4 rows that see one another, and a call takes 3")
    source.write_text(json.dumps(folder.config["text_config"]))
    blind = tools.compile(source, "--plain", "--batch=2", out="blind.cria")
    refused(blind, folder.parts, "see one another, but not in this artifact")


def check_response(server):
    """/v1/responses answers as a chat does."""
    parts = [{"type": "input_image", "image_url": url_of("photo.jpg"), "detail": "auto"}]
    parts.append({"type": "input_text", "text": QUESTION})
    fields = {"temperature": 0, "max_output_tokens": images.NEW}
    answer = server.post(RESPONSES, {"input": [{"role": "user", "content": parts}], **fields})
    check(answer.status == 200, answer)
    (wanted,), usage = reply(server, "photo.jpg")
    (message,) = answer.json["output"]
    check(message["content"][0]["text"] == wanted, f"{answer}, expected {wanted!r}")
    check(answer.json["usage"]["input_tokens"] == usage["prompt_tokens"], answer)
    parts[0]["image_url"] = "http://x/a.png"
    answer = server.post(RESPONSES, {"input": [{"role": "user", "content": parts}]})
    check(answer.status == 400 and answer.json["error"]["param"] == "input", answer)


def check_spellings(server):
    """A data: URL is read as browsers do: in any case, with broken lines, without padding."""
    wanted, _ = reply(server, "tall.png")
    base64 = url_of("tall.png").split(",")[1]
    lines = "\r\n".join(base64[at : at + 30] for at in range(0, len(base64), 30))
    check(base64.endswith("="), "no padding to leave out")
    for url in [
        "DATA:image/PNG;Base64," + base64, f"data:;base64,{lines}\n",
        "data:text/plain;charset=utf-8;base64, " + base64.rstrip("="),
    ]:  # fmt: skip
        answer = server.post(CHAT, asked(image(url)))
        check(answer.status == 200, answer)
        check([c["message"]["content"] for c in answer.json["choices"]] == wanted, url)


def check_refusals(server):
    def refused(part, text, code):
        answer = server.post(CHAT, asked(*part))
        problem = answer.json["error"]
        check(answer.status == 400 and text in problem["message"], answer)
        check(problem["param"] == "messages" and problem["code"] == code, answer)

    refused([image("http://x/a.png")], "opens no addresses", "unsupported_value")
    refused([image("data:image/png,x")], "no data: URL in base64", "invalid_image_url")
    refused([image("data:image/png;base64,%%")], "no data: URL in base64", "invalid_image_url")
    refused([image("data:image/png;base64,AAAAA")], "no data: URL in base64", "invalid_image_url")
    refused([image("data:image/png;base64")], "no data: URL in base64", "invalid_image_url")
    refused([image("data:image/png;base64,AAAA")], "expected a PNG or JPEG", "invalid_image")
    refused([image(url_of("dot.png"))] * 17, "at most 16 images, got 17", "invalid_value")
    refused([image(url_of("photo.jpg", 900))], "the image: ", "invalid_image")
    header = images.chunk(b"IHDR", struct.pack(">IIBBBBB", 5000, 5000, 8, 2, 0, 0, 0))
    wide = b"\x89PNG\r\n\x1a\n" + header + images.chunk(b"IDAT", zlib.compress(b"x"))
    wide = "data:image/png;base64," + base64.b64encode(wide).decode()
    refused([image(wide)], "expected at most 16777216 pixels", "invalid_image")


def main():
    tools = Tools(*sys.argv[1:3])
    folder = images.Folder(tools, "llava", images.LLAVA, images.CLIP, ["vision"])
    source = tools.scratch / "llava.json"
    artifact = tools.compile(source, "--plain", "--batch=8", out="batch.cria")
    options = [f"--part={folder.parts[0]}", "--chunk=7", "--batch=3"]
    with Server(tools, artifact, *options, weights=folder.path) as server:
        check_replies(server, folder, artifact, tools)
        check_response(server)
        check_spellings(server)
        check_refusals(server)
    gemma3 = images.PROCESSORS["gemma3"]
    other = images.Folder(tools, "gemma3", images.GEMMA3, gemma3, ["vision", "projector"])
    paged = tools.compile(
        tools.scratch / "gemma3.json", "--plain", "--batch=8", "--chunk=5", out="pages.cria"
    )
    # Too few pages for three texts: those with images wait for one another, others for them.
    options = [*(f"--part={part}" for part in other.parts), "--chunk=3", "--batch=3", "--pages=12"]
    with Server(tools, paged, *options, weights=other.path) as server:
        check_replies(server, other, paged, tools)
    check_starts(tools, other, paged, folder)
    with Server(tools, artifact, weights=folder.path) as server:
        answer = server.post(CHAT, asked(image(url_of("dot.png"))))
        check(answer.status == 400 and "reads none of this model" in answer.json["error"]["message"], answer)


main()

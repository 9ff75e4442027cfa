"""The chat page: a message is answered, and no text of it or of the model is HTML."""

import shutil
import sys

from serving import HERE, TINY, Server, Tools, check, wait_for

sys.path.append(str(HERE.parent / "tools"))
from browser import Browser, find  # noqa: E402

MESSAGE = "<img src=x onerror=window.hacked=1> Once"


def main():
    tools = Tools(*sys.argv[1:3])
    if not find():
        print("skipped: there is no chromium")
        return
    folder = tools.scratch / "tiny"
    shutil.copytree(TINY, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    artifact = tools.compile(TINY / "config.json", "--batch=2")
    with Server(tools, artifact, weights=folder) as server, Browser() as browser:
        page = browser.open(f"http://{server.host}:{server.port}/")
        models = "[...document.querySelectorAll('option')].map(o => o.textContent)"
        wait_for(lambda: page.evaluate(models) == ["tiny"], "the models are listed")
        page.evaluate(f"at('text').value = {MESSAGE!r}; at('text').focus()")
        page.press("Enter")
        texts = "[...document.querySelectorAll('.message')].map(m => m.textContent)"
        idle = "at('send').textContent === 'Send' && messages.length === 2"
        wait_for(lambda: page.evaluate(idle), "the reply is there")
        shown = page.evaluate(texts)
        check(len(shown) == 2 and shown[0] == MESSAGE and shown[1], shown)
        check(server.metrics()["generation_tokens_total"] > 0, "the model has drawn it")
        check(not page.evaluate("window.hacked || document.images.length"), "text is HTML")
        page.evaluate("at('reset').click()")
        check(page.evaluate(texts) == [], "a new chat is empty")


main()

"""Drives headless Chromium through its pipe of the DevTools protocol.

    with Browser() as browser:
        page = browser.open(file, width=1280, dark=True)
        page.press("Tab")
        page.evaluate("document.title")
"""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]

# By name, what a key event has beside it.
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}
KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def find():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self):
        self.last = 0
        self.pages = {}
        self.folder = tempfile.mkdtemp()
        theirs_in, self.out = os.pipe()
        self.read, theirs_out = os.pipe()
        self.buffer = b""
        # The pipe is 3 and 4; root has no sandbox.
        flags = ["--headless", "--remote-debugging-pipe", "--disable-gpu"]
        flags += ["--no-first-run", "--hide-scrollbars", f"--user-data-dir={self.folder}"]
        flags += ["--disable-dev-shm-usage", "--disable-background-networking"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', find(), *flags],
            pass_fds=[theirs_in, theirs_out],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, EOFError):
            self.call("Browser.close")
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.read, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.note(answer)

    def note(self, event):
        page = self.pages.get(event.get("sessionId"))
        if page and "method" in event:
            page.events.append((event["method"], event["params"]))

    def open(self, file, width=1280, height=900, dark=False, scripts=True):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        self.pages[page.session] = page
        for domain in ["Page", "Runtime", "Log", "Network"]:
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}
        page.call("Emulation.setEmulatedMedia", features=[scheme, calm])
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        is_url = "://" in str(file)
        url = file if is_url else pathlib.Path(file).resolve().as_uri()
        page.call("Page.navigate", url=url)
        while not any(name == "Page.loadEventFired" for name, _ in page.events):
            self.note(self.receive())
        if scripts:  # what waits for the first layout
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
        return page


class Page:
    def __init__(self, browser, session):
        self.browser = browser
        self.session = session
        self.events = []

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression):
        result = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def press(self, key, shift=False):
        event = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
        event["modifiers"] = 8 if shift else 0
        if key == "Enter":
            event["text"] = "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, x, y):
        for kind in ["mousePressed", "mouseReleased"]:
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )

    def screenshot(self, file, whole=False):
        """The window, or the whole page, as PNG or WebP."""
        options = {"captureBeyondViewport": whole}
        if pathlib.Path(file).suffix == ".webp":
            options |= {"format": "webp", "quality": 80}
        result = self.call("Page.captureScreenshot", **options)
        pathlib.Path(file).write_bytes(base64.b64decode(result["data"]))

    def problems(self):
        """What the page logged, threw, or fetched beside itself."""
        found = []
        for name, event in self.events:
            if name in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append((name, event))
            elif name == "Network.requestWillBeSent":
                url = event["request"]["url"]
                if url != event["documentURL"] and not url.startswith("data:"):
                    found.append((name, url))
        return found

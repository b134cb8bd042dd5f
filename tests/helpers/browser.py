"""A headless Chromium that a test drives like a user: it clicks, types, and takes pictures.

The browser speaks the DevTools protocol over two pipes, so no port and no further library is needed.
"""

import base64
import json
import os
import subprocess
import tempfile
import time
from contextlib import contextmanager

from tests.helpers.chromium import BROWSER

_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"),
    *("--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_COMMANDS, _ANSWERS = 3, 4
"""The file descriptors at which the browser reads commands and writes answers."""
_MIDDLE = """(() => {
  const node = document.querySelector(SELECTOR);
  node.scrollIntoView({ block: "center" });
  const box = node.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
})()"""
SECONDS = 30
"""The time after which a page has not become what a test waits for."""


class Page:
    """A page of the browser."""

    def __init__(self, commands, answers, session=None):
        self._commands, self._answers, self._session = commands, answers, session
        self._last = 0
        self.errors = []
        """The messages of errors in the page's scripts."""

    def send(self, method, **parameters):
        """Send a command of the protocol, and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._last:
            if answer.get("method") == "Runtime.exceptionThrown":
                details = answer["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _receive(self):
        message = b""
        while not message.endswith(b"\0"):
            part = self._answers.read(1)
            assert part, "the browser has ended"
            message += part
        return json.loads(message[:-1])

    def evaluate(self, script):
        """Return the value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition):
        """Wait until an expression in the page is true."""
        deadline = time.monotonic() + SECONDS
        while not self.evaluate(f"Boolean({condition})"):
            text = f"{condition} is not true; {self.errors}\n"
            assert time.monotonic() < deadline, text + self.evaluate("document.body.innerText")
            time.sleep(0.02)

    def open(self, address, *, width=1440, height=1000, dark=False):
        """Open an address in a window of this size, in the light or the dark theme."""
        self.send("Runtime.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url="about:blank")
        self.send("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address)}) && document.readyState === 'complete'")

    def click(self, selector):
        """Click the middle of an element with the mouse."""
        x, y = self.evaluate(_MIDDLE.replace("SELECTOR", json.dumps(selector)))
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key, text=""):
        """Press and release a key, with the text that it types."""
        code = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowRight": 39, "ArrowUp": 38, "ArrowLeft": 37}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed)

    def picture(self):
        """Return a picture of the window as PNG."""
        return base64.b64decode(self.send("Page.captureScreenshot")["data"])


@contextmanager
def browser():
    """Start a browser, and return a new page of it."""
    fillers = [os.open(os.devnull, os.O_RDONLY)]
    while fillers[-1] <= _ANSWERS:  # no pipe gets one of the two numbers
        fillers.append(os.open(os.devnull, os.O_RDONLY))
    to_browser, from_browser = os.pipe(), os.pipe()

    def connect():
        os.dup2(to_browser[0], _COMMANDS)
        os.dup2(from_browser[1], _ANSWERS)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [BROWSER, *_OPTIONS, f"--user-data-dir={folder}"],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for descriptor in (*fillers, to_browser[0], from_browser[1]):
            os.close(descriptor)
        try:
            with open(from_browser[0], "rb") as answers:
                top = Page(to_browser[1], answers)
                target = top.send("Target.createTarget", url="about:blank")["targetId"]
                session = top.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
                yield Page(to_browser[1], answers, session)
        finally:
            process.kill()
            process.wait()
            os.close(to_browser[1])

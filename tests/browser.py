"""A real browser for tests: Debian's Chromium, driven over a pipe by its own protocol."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
LIMIT = 60
PAPER = 718
"""Pixels between the margins of A4."""


class Browser:
    """One page. Messages are JSON, each ended by a zero byte; the browser reads them from 3 and answers on 4."""

    def __init__(self, reads: int, writes: int) -> None:
        self._reads, self._writes = reads, writes
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self._loaded = False
        self.problems: list[str] = []
        """What went to the console as an error or a warning, and exceptions."""
        self.requested: list[str] = []

    def attach(self) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def open(
        self, place: Path | str, *, width: int = 1280, height: int = 900, scheme: str = "light", touch: bool = False
    ) -> None:
        """Load a file or an address anew at that size and colour scheme."""
        self.problems.clear()
        self.requested.clear()
        self._loaded = False
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.ask("Emulation.setTouchEmulationEnabled", enabled=touch)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=place if isinstance(place, str) else place.resolve().as_uri())
        while not self._loaded:
            self._next()

    def evaluate(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def move(self, x: float, y: float) -> None:
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def drag(self, *points: tuple[float, float]) -> None:
        """Press the mouse at the first point, move it along the others, and let go at the last."""
        for place, (x, y) in enumerate(points):
            kind = "mouseMoved" if place else "mousePressed"
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        x, y = points[-1]
        self.ask("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def click(self, selector: str) -> None:
        """Click in the middle of an element, as a person does."""
        x, y, *_ = self.box(selector)
        self.drag((x, y))

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """The middle, the width and the height of an element, which is brought into view."""
        return tuple(
            self.evaluate(
                f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
                "one.scrollIntoView({block: 'center', behavior: 'instant'}); const box = one.getBoundingClientRect();"
                "return [box.x + box.width / 2, box.y + box.height / 2, box.width, box.height] })()"
            )
        )

    def wait(self, condition: str, seconds: float = LIMIT) -> None:
        """Until an expression of the page is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"{condition} was not true within {seconds} seconds"
            time.sleep(0.02)

    def tap(self, x: float, y: float) -> None:
        self.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, *, whole: bool = True) -> bytes:
        picture = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        return base64.b64decode(picture)

    def pdf(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reads], [], [], LIMIT)
            assert ready, f"the browser has not answered for {LIMIT} seconds"
            part = os.read(self._reads, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, found: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.problems.append(str(found["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and found["type"] in ("error", "warning", "assert"):
            self.problems.append(str(found["args"]))
        elif event == "Log.entryAdded" and found["entry"]["level"] in ("error", "warning"):
            self.problems.append(found["entry"]["text"])
        elif event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requested.append(found["request"]["url"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Started without a window, and ended with all that belongs to it."""
    assert CHROMIUM, "chromium is not installed"
    from_browser, to_us = os.pipe()
    from_us, to_browser = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = (
            "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions "
            "--disable-background-networking --hide-scrollbars --remote-debugging-pipe"
        )
        # The shell puts our pipes where the browser looks for them.
        command = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
        process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, *options.split(), f"--user-data-dir={profile}"],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        try:
            page = Browser(from_browser, to_browser)
            page.attach()
            yield page
        finally:
            # Without its pipe the browser ends by itself.
            os.close(to_browser)
            os.close(from_browser)
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

"""A headless Chromium driven over a pipe by its DevTools protocol: cookies, widths, console, clicks."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LOOK_S, _PATIENCE_S = 0.1, 90.0


class Tab:
    """One page. ``troubles`` are what its console and its loads complained of."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = os.fdopen(read, "rb", buffering=0), os.fdopen(write, "wb", buffering=0)
        self._rest, self._number, self._session = b"", 0, ""
        self.troubles: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")

    def shape(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The size of the screen in CSS pixels, and the colours that its user prefers."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def go(self, url: str) -> None:
        """Open an address, and wait until it is loaded."""
        self._ask("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        answer = self._ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true; a page that never makes it so fails the test.

        While a page goes to the next one, what the expression speaks of is not there yet.
        """
        until = time.monotonic() + _PATIENCE_S
        tried = f"(() => {{ try {{ return Boolean({expression}) }} catch (error) {{ return false }} }})()"
        while not self.value(tried):
            assert time.monotonic() < until, (
                f"never true: {expression}\n{self.value('document.body.innerText')}"
            )
            time.sleep(_LOOK_S)

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        found = self.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert isinstance(found, int)
        return found

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        data = self._ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, (method, said["error"])
                result: dict[str, Any] = said["result"]
                return result
            self._note(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = self._read.read(1 << 16)
            assert data, "the browser has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _note(self, said: dict[str, Any]) -> None:
        method, params = said.get("method"), said.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.troubles.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.troubles.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.troubles.append(str(params["args"]))


@contextmanager
def opened(browser: str, profile: Path) -> Iterator[Tab]:
    """A browser with an empty profile, ended at the end."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
    words = [browser, *options, f"--user-data-dir={profile}", "about:blank"]
    # The browser reads what it is told from 3 and answers on 4.
    child = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *words],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Tab(ours_in, ours_out)
    finally:
        child.terminate()
        child.wait()

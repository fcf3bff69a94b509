"""The dashboard in a real browser: entered, wide and narrow, a bisection watched and stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

import fakes_kept
from accel_lab.dashboard.server import listening
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.marker import mark
from accel_lab.execution.run_folder.progress_file import ProgressFile
from fakes_browser import Tab, opened
from fakes_dashboard import LINES, WAITS, Dashboard, dashboard

UNTRUSTED_PAGE = "<title>stored</title><p>report</p><script>document.title = 'it ran'</script>"


@contextmanager
def served(folder: Path) -> Iterator[Dashboard]:
    """A dashboard that answers on a free port."""
    bound = listening("127.0.0.1", 0)
    bound.listen()
    with dashboard(folder, WAITS, bound.getsockname()[1]) as board:
        config = uvicorn.Config(
            board.app, ws="none", lifespan="off", log_level="critical", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield board
        finally:
            server.should_exit = True
            thread.join()


def fits(tab: Tab) -> bool:
    """Whether the page is no wider than a desk's screen, nor than a phone's, in light and dark."""
    found = []
    for width, dark in ((1200, False), (390, True), (390, False), (1200, True)):
        tab.shape(width, dark=dark)
        found.append(tab.overflow())
    return max(found) <= 0


@pytest.mark.browser
@pytest.mark.slow
def test_a_bisection_is_started_watched_and_stopped_in_a_browser(tmp_path: Path, browser: str) -> None:
    with served(tmp_path / "lab") as board, opened(browser, tmp_path / "profile") as tab:
        long = fakes_kept.write(board.base / ("long-" + "x" * 200), "diff", program="y" * 500)
        (long / ("z" * 200 + ".txt")).write_text("")
        tab.shape(1200)
        tab.go(board.access.url("127.0.0.1"))
        tab.wait("location.search === '' && document.querySelector('form.start') !== null")
        tab.value("document.querySelector('details').open = true")
        assert fits(tab)
        tab.value("document.querySelector('[name=script]').value = 'script.py'")
        tab.value("document.querySelector('form.start button').click()")
        tab.wait("location.pathname.includes('/jobs/')")
        tab.wait(f"document.querySelectorAll('#lines tr').length === {len(LINES)}")
        tab.wait("document.querySelector('#state').innerText === 'running'")
        assert fits(tab)
        assert tab.value("document.querySelectorAll('#lines script').length") == 0
        assert "<script>alert(1)</script>" in tab.value("document.querySelector('#lines').innerText")
        tab.value("document.querySelector('button.stop').click()")
        tab.wait("document.querySelector('#state').innerText === 'over'")
        assert "kept" in tab.value("document.querySelector('#said').innerText")
        assert tab.value("document.querySelectorAll('#lines tr').length") == len(LINES) + 1

        home = board.access.url("127.0.0.1").partition("/?")[0] + f"{board.access.root}/"
        for path in (f"runs/runs/{long.name}", "runs/runs/kept-bisect"):
            tab.go(home + path)
            assert fits(tab)

        going = board.base / "going"
        going.mkdir()
        mark(going, "bisect")
        lines = ProgressFile(going)
        with held(going):
            lines.write(LINES[0])
            tab.go(home + "runs/runs/going/live")
            tab.wait("document.querySelectorAll('#lines tr').length === 1")
            assert tab.value("document.querySelector('button.stop')") is None and fits(tab)
            lines.write(LINES[1])
            tab.wait("document.querySelectorAll('#lines tr').length === 2")
        tab.wait("document.querySelector('#state').innerText === 'over'")
        assert tab.troubles == []

        tab.go(home + "runs/runs/kept-bisect")
        (board.base / "kept-bisect" / "report.html").write_text(UNTRUSTED_PAGE)
        tab.value("document.querySelector('a.button').click()")
        tab.wait("document.title === 'stored'")
        assert tab.value("document.body.innerText").strip() == "report"
        assert any("sandboxed" in trouble for trouble in tab.troubles)

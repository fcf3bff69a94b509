"""``accel-lab dashboard`` as it is typed: entered over a socket, and ended with all that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from click.testing import CliRunner

from accel_lab.cli.commands import dashboard_command
from accel_lab.core.errors import UsageError
from accel_lab.dashboard.access import Access
from accel_lab.execution.processes import process_table

SOURCE = str(Path(__file__).resolve().parents[2] / "bisect")
_TRIES, _PAUSE_S = 1200, 0.1


def test_what_is_not_installed_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_command, "_NEEDED", ("starlette", "no_such_package"))
    with pytest.raises(UsageError, match=r"no-such-package.*pip install 'accel-lab\[dashboard\]'"):
        CliRunner().invoke(dashboard_command.command, [], standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--host", "0.0.0.0"), "only this machine"),
        (("--root", "none"), "is not a folder"),
        (("--python", "/no/such/python"), "--python"),
        (("--port", "70000"), "--port"),
    ],
)
def test_what_cannot_be_is_one_line_and_code_2(tmp_path: Path, options: tuple[str, ...], says: str) -> None:
    words = [sys.executable, "-m", "accel_lab", "dashboard", *options]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("as_json", [True, False])
def test_the_browser_is_led_by_a_file_that_others_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """The command line of a browser is everybody's to read, so the token must not be on it."""
    opened: list[tuple[str, str, int, int]] = []

    def note(address: str) -> None:
        page = Path(address.removeprefix("file://"))
        modes = (page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777)
        opened.append((address, page.read_text(), *modes))

    def ended(bound: Any, places: Any, describe: Any, ready: Any, *more: Any) -> None:
        ready(Access(port=bound.getsockname()[1]))
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", note)
    monkeypatch.setattr("accel_lab.dashboard.server.serve", ended)
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path / "home"))
    words = ["--port", "0", "--root", str(tmp_path), "--open", *(["--json"] if as_json else [])]
    done = CliRunner().invoke(dashboard_command.command, words, standalone_mode=False)
    assert done.exception is None and done.return_value == 0
    line = done.stdout.splitlines()[0]
    url = json.loads(line)["url"] if as_json else line
    ((address, page, mode, folder_mode),) = opened
    token = url.partition("token=")[2]
    assert token and token not in address and url in page
    assert (mode, folder_mode) == (0o600, 0o700)
    assert not Path(address.removeprefix("file://")).exists()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_it_takes_its_bisection_with_it(tmp_path: Path, torch_python: str, number: signal.Signals) -> None:
    (tmp_path / "waits.py").write_text("import time\ntime.sleep(600)\n")
    env = {**os.environ, "PYTHONPATH": SOURCE, "ACCEL_LAB_HOME": str(tmp_path / "home")}
    words = [sys.executable, "-m", "accel_lab", "dashboard", "--port", "0", "--python", torch_python]
    lab = subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert lab.stdout is not None
        url = lab.stdout.readline().strip()
        client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        entrance = client.open(url).read().decode()
        home = f"http://{urlsplit(url).netloc}" + entrance.partition('href="')[2].partition('"')[0]
        page = client.open(home).read().decode()
        form = page.partition('name="form" value="')[2].partition('"')[0]
        data = urlencode({"form": form, "script": "waits.py"}).encode()
        origin = {"Origin": f"http://{urlsplit(url).netloc}"}
        answer = client.open(urllib.request.Request(f"{home}jobs", data, origin))
        assert answer.geturl().startswith(f"{home}jobs/")
        child = bisection(tmp_path / "home" / "runs")
        lab.send_signal(number)
        code = lab.wait(timeout=300)
    finally:
        lab.kill()
        lab.wait()
    assert code == (0 if number == signal.SIGINT else -signal.SIGKILL)
    assert ends(child)


def bisection(runs: Path) -> int:
    """The process that works in the run's folder, once there is one."""
    for _ in range(_TRIES):
        for lock in runs.glob("*/lock.json"):
            try:
                return int(json.loads(lock.read_text())["pid"])
            except (OSError, ValueError, KeyError):
                continue
        time.sleep(_PAUSE_S)
    raise AssertionError("no bisection began")


def ends(pid: int) -> bool:
    """Whether a process is gone, soon: the guardian of a killed lab needs a moment."""
    for _ in range(_TRIES):
        found = process_table.read(pid)
        if found is None or not found.alive:
            return True
        time.sleep(_PAUSE_S)
    return False

"""Starts a container's command and reports how it ended.

Passed to the container as text (``python -I -S -c``), so it is a single file that uses only the standard
library. It exists because a container's exit code does not tell ``exit(139)`` from a segmentation fault, or
``exit(127)`` from a missing program. With ``held`` in the plan it exits when its standard input closes, which
means that the lab is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any


def main() -> None:
    plan = json.loads(sys.argv[1])
    # Its standard output is the container's log, which the lab reads; the command's output goes to files.
    report: dict[str, Any] = {}
    try:
        report = run(plan)
    except OSError as error:
        report = {"error": f"cannot open {error.filename}: {error.strerror}"}
    os.write(1, f"\n{plan['token']} {json.dumps(report)}\n".encode())
    code = report.get("exit_code")
    sys.exit(code if code is not None else 128 + report.get("signal", 0))


def run(plan: Any) -> dict[str, Any]:
    os.makedirs(os.environ.get("HOME") or "/tmp", exist_ok=True)
    source = os.open(plan["stdin"] or os.devnull, os.O_RDONLY)
    out = os.open(plan["stdout"], os.O_WRONLY | os.O_APPEND)
    err = os.open(plan["stderr"], os.O_WRONLY | os.O_APPEND)
    ready, failed = os.pipe()  # exec closes it; the child writes to it if exec fails
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        start(plan["command"], (source, out, err), failed)
    os.close(failed)
    if plan.get("held"):
        hold()

    def forward(number: int, frame: Any) -> None:
        if number != signal.SIGUSR1:
            send(child, number)
        elif catches(child, number):  # requests Python stacks; without a handler it would kill the child
            os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, forward)
    why = os.read(ready, 4096).decode("utf-8", "replace")
    _, status, usage = os.wait4(child, 0)
    if why:
        return {"error": why}
    ended: dict[str, Any] = {"seconds": time.monotonic() - began, "peak_mb": usage.ru_maxrss / 1024}
    if os.WIFSIGNALED(status):
        ended["signal"] = os.WTERMSIG(status)
    else:
        ended["exit_code"] = os.WEXITSTATUS(status)
    return ended


def hold() -> None:
    """Exits, and thereby ends the container, as soon as standard input is closed."""

    def wait() -> None:
        try:
            while os.read(0, 4096):
                pass
        except OSError:
            pass
        os._exit(128 + signal.SIGKILL)

    # Block signals in this thread, because only the main thread forwards them.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(command: Any, streams: Any, failed: int) -> None:
    """Runs the command in the forked child, in a new session; never returns."""
    try:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would inherit that
            signal.signal(number, signal.SIG_DFL)
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(failed, f"cannot start {command[0]!r}: {error.strerror}".encode())
    finally:
        os._exit(127)


def send(child: int, number: int) -> None:
    try:
        os.killpg(child, number)
    except OSError:
        pass  # the child has ended


def catches(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as stream:
            for line in stream:
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError):
        pass
    return False


if __name__ == "__main__":
    main()

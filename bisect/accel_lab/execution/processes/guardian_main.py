"""The guardian process: waits until the lab is gone, then kills what is left of its run.

Usage: ``guardian_main.py PID``, where PID is the lab's; the lab may be gone before this starts. Standard
input gives the run's id and then ``pid start`` lines. The guardian ignores the signals of a closed terminal
or session.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

#: Seconds for which it retries unkillable processes, such as one that waits for a dead file server.
PATIENCE_S = 120.0
#: Most processes that are remembered; older ones are dead or found by the marker.
MOST = 20_000
#: Seconds between checks of the parent, on kernels without pidfd.
_LOOK_S = 1.0


def listen(stream: int, lab: int) -> tuple[str, set[tuple[int, int]]]:
    """Returns the run's id and the named processes, once the pipe is closed or the lab is gone."""
    poll = select.poll()
    poll.register(stream, select.POLLIN | select.POLLHUP)
    waited = _open_pid(lab)
    if waited >= 0:  # a fork of the lab may keep the pipe open
        poll.register(waited, select.POLLIN)
    run, rest = "", b""
    known: dict[tuple[int, int], None] = {}
    while True:
        gone = os.getppid() != lab  # if it is gone from the start, its pid may be another process's
        pause = 0 if gone else None if waited >= 0 else _LOOK_S * 1000
        ready = {descriptor for descriptor, _ in poll.poll(pause)}
        if stream not in ready:
            if gone or waited in ready:  # everything that it wrote has been read
                break
            continue
        data = os.read(stream, 65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            words = line.decode("ascii", "replace").split()
            if not run:
                run = words[0] if words else ""
            elif len(words) == 2 and all(word.isdigit() for word in words):
                known[int(words[0]), int(words[1])] = None
        while len(known) > MOST:
            known.pop(next(iter(known)))
    return run, set(known)


def _open_pid(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1


def main() -> None:
    """Wait for the end of the lab, then end its run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    lab = int(sys.argv[1])
    from accel_lab.core.errors import LabError
    from accel_lab.execution.processes import leftovers

    os.chdir("/")
    run, known = listen(0, lab)
    until = time.monotonic() + PATIENCE_S
    while run and time.monotonic() < until:
        try:
            leftovers.end_run(run, known)
            return
        except LabError:
            continue


if __name__ == "__main__":
    main()

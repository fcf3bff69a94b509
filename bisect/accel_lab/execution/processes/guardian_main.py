"""The process behind :mod:`.guardian`: waits until the lab is gone, then ends all that it has left.

``guardian_main.py PID``: that is the lab's, which may be gone by the time that this runs. The run's id and
then ``pid start`` lines come from standard input. Neither a terminal that is closed nor the end of a session
ends it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from pathlib import Path

#: So long it tries to end what cannot be killed, such as a process that waits for a dead file server.
PATIENCE_S = 120.0
#: More processes than these are forgotten, the oldest first: they are found by the marker, or are dead.
MOST = 20_000
#: Where a process cannot be waited for, its parent is asked for so often.
_LOOK_S = 1.0


def listen(stream: int, lab: int) -> tuple[str, set[tuple[int, int]]]:
    """The run's id and the processes that were named, once the other end is closed or the lab is gone."""
    poll = select.poll()
    poll.register(stream, select.POLLIN | select.POLLHUP)
    waited = _open_pid(lab)
    if waited >= 0:  # a fork of the lab may hold the pipe open
        poll.register(waited, select.POLLIN)
    run, rest = "", b""
    known: dict[tuple[int, int], None] = {}
    while True:
        gone = os.getppid() != lab  # from the start, perhaps: then its number may be another process's
        pause = 0 if gone else None if waited >= 0 else _LOOK_S * 1000
        ready = {descriptor for descriptor, _ in poll.poll(pause)}
        if stream not in ready:
            if gone or waited in ready:  # all that it said was read
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

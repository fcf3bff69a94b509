"""A watch finds all processes of one run, compares them with the limits, and ends them.

A process belongs to the run if it is the root or a descendant that was seen, is in a session or group that a
member opened, carries the run's marker in its environment, or is an orphan that no other run can have left.
"""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.disk_usage import DiskUsage
from accel_lab.core.probe import Limits

from . import process_table
from .guardian import GUARDIAN
from .process_table import HAVE_PROC, REGISTER, Process

QUICK_S = 0.005
SLOW_S = 0.1
LAZY_S = 0.5
GRACE_S = 1.0
LEFTOVER_S = 0.5
STACKS_S = 0.3
UNKILLABLE_S = 10.0
FREEZE_S = 2.0
FORGET_S = 1.0
THREADS = 16_384  # threads use pids too; far above any normal program, below what harms the machine
_HARD = ("processes", "memory", "output", "disk")  # killed at once: a polite signal would let these grow

_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


class Watch:
    """Watches one process and all its descendants; the process need not be our child.

    ``passed`` is the first limit that was exceeded. ``pause`` is the seconds until the next ``poll`` is due.
    ``peak_mb`` is the highest sum of resident memory seen.

    ``variable`` holds the marker in the environment. ``known`` are further processes of the run. ``written``
    are the folders that it may fill.
    """

    def __init__(
        self,
        pid: int,
        *,
        marker: str,
        limits: Limits,
        outputs: Sequence[Path | int],
        variable: str = process_table.MARKER,
        known: Collection[tuple[int, int]] = (),
        written: Sequence[Path] = (),
    ) -> None:
        self.marker = marker
        self._variable = variable
        self.peak_mb = 0.0
        self.passed: str | None = None
        self.pause = QUICK_S
        self._pid = pid
        self._limits = limits
        self._outputs = tuple(outputs)
        self._disk = DiskUsage(written, limits.disk_mb)
        self._began = time.monotonic()
        self._last: dict[str, float] = {}
        self._last_poll = self._began
        self._step = QUICK_S
        root = process_table.read(pid) if pid > 0 else None
        self._root = root.key if root else None
        # The run was started in these sessions and groups, which it shares with us or a warm server.
        self._foreign = {os.getsid(0), os.getpgrp()}
        parent = process_table.read(root.parent) if root else None
        if parent is not None:
            self._foreign |= {parent.session, parent.group}
        self._protected = process_table.self_and_ancestors()
        self._known: set[tuple[int, int]] = {*known, *([self._root] if self._root else [])}
        self._opened: dict[int, float] = {}  # session or group -> when a member was last seen in it
        self._strangers: set[int] = set()
        self._forget_at = 0.0
        self._stopped: set[tuple[int, int]] = set()
        self._zombies = 0
        self._reaped = 0
        self._older = frozenset(REGISTER.orphans())
        self._done = HAVE_PROC and self._root is None
        if root is not None:
            process_table.confine(pid, file_mb=limits.file_mb)
        with REGISTER.lock:
            _watches.add(self)

    # ---- finding

    def _may_have_left(self, process: Process) -> bool:
        """Whether an orphan without another trace can only come from this run.

        With several runs at once it may come from any of them. The last of them ends it, because killing a
        helper of a run that is still going would change that run's result.
        """
        if self._root is None or not REGISTER.is_orphan(process):
            return False
        if process.session != self._pid and REGISTER.owns(process.session):
            return False
        return not self._has_rivals(process.start)

    def _has_rivals(self, start: float) -> bool:
        others = [w for w in _active() if w is not self]
        return any(w._root is not None and w._root[1] <= start for w in others)

    def _is_root_of_search(self, process: Process, now: float) -> bool:
        if process.key in self._known:
            return True
        if self._root is not None and process.start < self._root[1]:
            return False
        for leader in (process.session, process.group):
            # The number of an empty session may be reused by strangers, so it is trusted only briefly.
            if now - self._opened.get(leader, -FORGET_S) < FORGET_S:
                return True
        return self._may_have_left(process) or process_table.is_marked(
            process.pid, self.marker, self._variable
        )

    def members(self, *, thorough: bool = False) -> list[Process]:
        """Returns the living processes of the run; a quick look skips pids that were strangers recently."""
        now = time.monotonic()
        if not HAVE_PROC:
            return [process_table.bare(self._pid)] if process_table.group_lives(self._pid) else []
        if thorough or now >= self._forget_at:
            self._strangers = set(self._protected)
            self._forget_at = now + FORGET_S
        self._reaped += REGISTER.reap()
        seen = list(process_table.table(self._strangers))
        related: dict[int, list[Process]] = defaultdict(list)
        for process in seen:
            for number in {process.parent, process.session, process.group}:
                related[number].append(process)
        queue = [p for p in seen if self._is_root_of_search(p, now)]
        mine: dict[int, Process] = {}
        while queue:
            process = queue.pop()
            if process.pid in mine:
                continue
            mine[process.pid] = process
            queue += [p for p in related[process.pid] if p.parent == process.pid]
            for leader in {process.session, process.group} - self._foreign:
                self._opened[leader] = now
                queue += [p for p in related[leader] if leader in (p.session, p.group)]
        self._strangers |= {p.pid for p in seen if p.pid not in mine and p.alive}
        living = [p for p in mine.values() if p.alive]
        fresh = [p for p in living if p.key not in self._known]
        for process in fresh:
            process_table.confine(process.pid, file_mb=self._limits.file_mb)
        if fresh:
            GUARDIAN.tell(fresh)
        self._known = {p.key for p in mine.values()} | ({self._root} if self._root else set())
        self._zombies = sum(not p.alive and p.parent != os.getpid() for p in mine.values())
        return living

    # ---- measuring

    def output_mb(self) -> float:
        """Returns the total size of the output files in MB; missing files count as empty."""
        total = 0
        for output in self._outputs:
            try:
                total += os.stat(output).st_size
            except OSError:
                pass
        return total / 2**20

    def poll(self) -> str | None:
        """Checks every process once; returns the name of the exceeded limit, or None."""
        began = time.monotonic()
        members = self.members()
        used = self._measure(members, began)
        limits = self._limits
        allowed = {
            "processes": float(limits.processes),
            "memory": float(limits.memory_mb),
            "output": float(limits.output_mb),
            "disk": float(limits.disk_mb),
            "timeout": limits.timeout_s,
        }
        self._step = min(self._step * 1.5, SLOW_S)
        pause = self._step
        for name, limit in allowed.items():
            if used[name] > limit:
                self.passed = self.passed or name
                return name
            # A quantity that grows is checked again when half of the remaining time to its limit has passed.
            growth = (used[name] - self._last.get(name, used[name])) / max(began - self._last_poll, 1e-6)
            if growth > 0:
                pause = min(pause, (limit - used[name]) / growth / 2)
        self._last, self._last_poll = used, began
        # However long the process table is, polling takes at most a fifth of one core.
        self.pause = max(pause, QUICK_S, min(4 * (time.monotonic() - began), LAZY_S))
        return None

    def _measure(self, members: Sequence[Process], now: float) -> dict[str, float]:
        memory = sum(p.rss_mb for p in members)
        self.peak_mb = max(self.peak_mb, memory)
        if memory > self._limits.memory_mb and max(p.rss_mb for p in members) <= self._limits.memory_mb:
            # RSS counts pages shared since a fork in each process; the run must not be stopped for that.
            memory = sum(process_table.own_mb(p) for p in members)
        many_threads = sum(p.threads for p in members) > THREADS
        return {
            # A zombie that its parent does not reap keeps its pid, so it counts.
            "processes": float("inf") if many_threads else float(len(members) + self._zombies),
            "memory": memory,
            "output": self.output_mb(),
            "disk": self._disk.look(),
            "timeout": now - self._began,
        }

    # ---- ending

    def stop(self, reason: str | None = None) -> None:
        """Ends the whole tree and returns when nothing of it is left; raises LabError if that fails.

        ``reason`` is a limit that the watch does not see, such as ``interrupted``. After a timeout the root
        first gets SIGUSR1, if it has a handler, to write its Python stacks. Then INT, TERM and KILL follow
        with short grace periods. A run that exceeds a growing resource is killed at once. If the root ended
        by itself, its descendants get a moment to finish; a resource tracker removes shared memory then.
        """
        self.passed = self.passed or reason
        members = self.members(thorough=True)
        steps: tuple[tuple[int, float], ...]
        root = next((p for p in members if p.pid == self._pid), None)
        if self.passed == "timeout" and root is not None and process_table.catches(root.pid, signal.SIGUSR1):
            process_table.send(root, signal.SIGUSR1)
            self._gone_within(STACKS_S)
        if root is not None or not HAVE_PROC:
            steps = ((signal.SIGINT, GRACE_S), (signal.SIGTERM, GRACE_S))
        else:
            steps = ((0, LEFTOVER_S), (signal.SIGTERM, LEFTOVER_S))
        for number, grace in steps:
            if self.passed in _HARD or not members:
                break
            self._send(members, number)
            if self._gone_within(grace):
                break
            members = self.members(thorough=True)
        self.kill()

    def clear(self) -> None:
        """Ends what is left after the root ended by itself."""
        self.stop()

    def kill(self) -> int:
        """Freezes the tree until no new process appears, then kills it; returns the number of processes."""
        began = time.monotonic()
        clean = 0
        while clean < 2:  # one look may miss a process that is being forked
            reaped = self._reaped
            members = self.members(thorough=True)
            waited = time.monotonic() - began
            fresh = [p for p in members if p.key not in self._stopped]
            self._stopped |= {p.key for p in fresh}
            if fresh and waited < FREEZE_S and HAVE_PROC:
                self._send(fresh, signal.SIGSTOP)
                continue
            self._send(members, signal.SIGKILL)
            hunting = self._hunt() if self._reaped > reaped else False
            clean = 0 if members or hunting else clean + 1
            if (members or hunting) and waited > UNKILLABLE_S:
                names = ", ".join(f"{p.pid} (state {p.state})" for p in members[:5])
                raise LabError(f"processes of the run cannot be killed: {names or 'they fork too fast'}")
            if members:
                time.sleep(0.002)
        REGISTER.reap()
        self._done = True
        return len(self._stopped)

    def _hunt(self) -> bool:
        """Chases processes that fork and exit faster than the table can be read; returns whether there are
        any.

        Only the dead links of such a chain are visible, as orphans of ours. Killing the one living link
        breaks the chain, so this strikes at the youngest orphan repeatedly.
        """
        if self._root is None or self._has_rivals(float("inf")):
            return False  # the dead may belong to another run
        strikes = sum(REGISTER.reap(strike=True, spare=self._older) > 0 for _ in range(50))
        return strikes > 1  # the first strike may just reap processes killed before

    def _send(self, members: Sequence[Process], number: int) -> None:
        if number == 0:
            return
        for process in members:
            if HAVE_PROC:
                process_table.send(process, number)
            elif process.pid == self._pid > 0:
                try:
                    os.killpg(self._pid, number)
                except OSError:
                    pass  # the group is gone

    def _gone_within(self, grace_s: float) -> bool:
        """Waits for the tree to end; returns False early if it grows past a limit."""
        end = time.monotonic() + grace_s
        pause = QUICK_S / 5
        while members := self.members():
            used = self._measure(members, self._began)
            limits = self._limits
            caps = (limits.processes, limits.memory_mb, limits.output_mb, limits.disk_mb)
            over = [name for name, cap in zip(_HARD, caps, strict=True) if used[name] > cap]
            if over:
                self.passed = self.passed or over[0]
                return False
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 2, QUICK_S * 4)
        return True


def sweep(marker: str) -> int:
    """Kills at once every process of the run with this marker; returns their number.

    It uses the run's watch if this program has one, else only the environment.
    """
    watches = [w for w in _active() if w.marker == marker]
    watches.append(Watch(0, marker=marker, limits=Limits(), outputs=()))
    return sum(watch.kill() for watch in watches)


def _active() -> list[Watch]:
    """Returns the watches of this program whose run has not ended."""
    with REGISTER.lock:  # another thread may add one
        return [watch for watch in _watches if not watch._done]

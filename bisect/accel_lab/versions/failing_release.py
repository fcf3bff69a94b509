"""Searches for a failing release when the user's own build passes, starting at the ends of the line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.probe import Probe
from accel_lab.core.releases.versions import Tested
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline

from .build_verdict import Decision
from .release_judge import skipped, tested
from .release_session import ReleaseListener, ReleaseSession, ReleaseSessions, silent

#: Maximum releases judged before the line counts as passing: its ends, then midpoints.
MAX_RELEASES = 6


@dataclass(frozen=True, kw_only=True)
class FirstFailing:
    """The first failing release, None if there is none; ``tested`` are all that were run."""

    version: str | None
    tested: tuple[Tested, ...] = ()

    @property
    def passing(self) -> tuple[Tested, ...]:
        """The releases that pass; they pass whatever the failure turns out to be."""
        return tuple(row for row in self.tested if row.verdict is Verdict.GOOD)

    @property
    def unavailable(self) -> tuple[Tested, ...]:
        """The releases that could not be run at all."""
        return tuple(row for row in self.tested if row.verdict is Verdict.SKIP and row.status is None)


def first_failing(
    sessions: ReleaseSessions, line: Sequence[str], listener: ReleaseListener = silent
) -> FirstFailing:
    """Tries releases until one fails that passes uncompiled.

    They run in the run's own folder, where the following bisection finds their results.
    """
    rows: list[Tested] = []
    judged = 0
    for version in order(line):
        if judged >= MAX_RELEASES:
            break
        began = time.monotonic()
        with ExitStack() as stack:
            try:
                sessions.made(version, listener=listener)
                session = stack.enter_context(sessions.session(version, home=True))
            except Interrupted:
                raise
            except (EnvironmentUnavailable, LabError) as error:
                rows.append(skipped(version, str(error), began))
                listener("judged", version, f"skip: {error}")
                continue
            judged += 1
            row = _first_runs(session, sessions.setting.folder)
        rows.append(row)
        listener("judged", version, row.verdict.value + (f": {row.why}" if row.why else ""))
        if row.verdict is Verdict.BAD:
            return FirstFailing(version=version, tested=tuple(rows))
    return FirstFailing(version=None, tested=tuple(rows))


def order(line: Sequence[str]) -> Iterator[str]:
    """Yields the newest release, the oldest, then midpoints of the gaps, widest gap first."""
    seen: set[int] = set()
    for place in (len(line) - 1, 0):
        if 0 <= place < len(line) and place not in seen:
            seen.add(place)
            yield line[place]
    gaps = [(0, len(line) - 1)]
    while gaps:
        gaps.sort(key=lambda gap: gap[0] - gap[1])
        low, high = gaps.pop(0)
        middle = (low + high) // 2
        if high - low > 1:
            if middle not in seen:
                seen.add(middle)
                yield line[middle]
            gaps += [(middle, high), (low, middle)]


def _first_runs(session: ReleaseSession, root: Path) -> Tested:
    """Judges by any failure, except one that also occurs uncompiled and so is not torch.compile's."""
    baseline = BaselineSearch(session.lab, session.probe).first_runs()
    outcome = baseline.steps[1].outcome
    decision = Decision(verdict=Verdict.GOOD, outcome=outcome, runs=2)
    if baseline.alternatives and baseline.target is None:
        why = "; ".join(outcome.notes) or "the lab could not prepare the run"
        decision = Decision(verdict=Verdict.SKIP, outcome=outcome, why=why, runs=2)
    elif baseline.target is not None:
        why = _uncompiled(session.lab, session.probe, baseline)
        decision = Decision(
            verdict=Verdict.SKIP if why else Verdict.BAD,
            outcome=outcome,
            signature=baseline.target,
            why=why,
            runs=3,
            failures=1,
        )
    return tested(session, decision, root)


def _uncompiled(lab: Lab, probe: Probe, baseline: Baseline) -> str:
    """Says why the failure is not the compiler's; empty if the uncompiled script passes."""
    outcome = baseline.uncompiled or lab.submit(replace(probe, rung=Rung.UNCOMPILED)).result()
    signature = lab.signature(outcome)
    return f"the script fails on this release with nothing compiled: {signature.line}" if signature else ""

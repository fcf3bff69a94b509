"""Looks for a release that fails, where the user's own build does not: the ends of the line first."""

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
from accel_lab.execution.asides import Interrupted
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline

from .build_verdict import Decision
from .release_judge import skipped, tested
from .release_session import ReleaseListener, ReleaseSession, ReleaseSessions, silent

#: Releases that are tried before the line is said to pass: its ends and what halves it again and again.
MOST_TRIED = 6


@dataclass(frozen=True, kw_only=True)
class FirstFailing:
    """The first release that fails, with what it does; ``tested`` are all that were tried on the way."""

    version: str | None
    tested: tuple[Tested, ...] = ()

    @property
    def passing(self) -> tuple[Tested, ...]:
        """Those that pass: they pass whatever the failure is."""
        return tuple(row for row in self.tested if row.verdict is Verdict.GOOD)

    @property
    def unavailable(self) -> tuple[Tested, ...]:
        """Those that could not be asked at all."""
        return tuple(row for row in self.tested if row.verdict is Verdict.SKIP and row.status is None)


def first_failing(
    sessions: ReleaseSessions, line: Sequence[str], listener: ReleaseListener = silent
) -> FirstFailing:
    """Try releases until one fails that passes with nothing compiled.

    They are run in the run's own folder: the bisection that follows finds their answers there.
    """
    rows: list[Tested] = []
    tried = 0
    for version in order(line):
        if tried >= MOST_TRIED:
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
            tried += 1
            row = _first_runs(session, sessions.setting.folder)
        rows.append(row)
        listener("judged", version, row.verdict.value + (f": {row.why}" if row.why else ""))
        if row.verdict is Verdict.BAD:
            return FirstFailing(version=version, tested=tuple(rows))
    return FirstFailing(version=None, tested=tuple(rows))


def order(line: Sequence[str]) -> Iterator[str]:
    """The newest, the oldest, then the middles of what lies between, wide gaps first."""
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
    """Any failure counts, but one that comes with nothing compiled too: that is not torch.compile's."""
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
    """Why the failure is none of the compiler's; empty where it passes with nothing compiled."""
    outcome = baseline.uncompiled or lab.submit(replace(probe, rung=Rung.UNCOMPILED)).result()
    signature = lab.signature(outcome)
    return f"the script fails on this release with nothing compiled: {signature.line}" if signature else ""

"""Answers the line search: makes a release's environment, runs the script on it, and judges it."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import Environment
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.releases.versions import Tested
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted

from .build_verdict import Decision, TargetFailure, decide
from .release_session import Pins, ReleaseListener, ReleaseSession, ReleaseSessions, describe, silent
from .remote_release import RemoteLost
from .remote_session import answered


class ReleaseJudge:
    """The :class:`accel_lab.search.timeline.version_search.Judge` of real environments.

    Each result is written to ``versions/<release>/tested.json`` for users. A resumed run judges again from
    the journals, so nothing runs twice.
    """

    def __init__(
        self,
        sessions: ReleaseSessions,
        target: TargetFailure,
        *,
        side_by_side: int = 2,
        listener: ReleaseListener = silent,
    ) -> None:
        self._sessions = sessions
        self._target = target
        self._listener = listener
        self._judges = ThreadPoolExecutor(max_workers=side_by_side, thread_name_prefix="release")

    def submit(self, version: str) -> Future[Tested]:
        """Judges a release in the background."""
        return self._judges.submit(self.judge, version)

    def prefetch(self, version: str) -> None:
        """Makes an environment that may be needed soon; if that fails, judging the release reports it."""
        if self._sessions.setting.remote is None:
            self._sessions.fetch(version, self._listener)

    def swapped(self, version: str, pins: Mapping[str, str]) -> Future[Tested]:
        """Judges a release in the background, with companions pinned at other versions than its own."""
        return self._judges.submit(self.judge, version, tuple(sorted(pins.items())))

    def judge(self, version: str, pins: Pins = ()) -> Tested:
        """Judges one release. Raises only ``Interrupted`` and ``RemoteLost``; any other failure is a SKIP."""
        began = time.monotonic()
        opened: list[Environment] = []

        def ask(session: ReleaseSession) -> Tested:
            opened.append(session.environment)
            return self._decide(session, pins)

        try:
            row = answered(
                self._sessions, version, ask, target=self._target, pins=pins, listener=self._listener
            )
        except (Interrupted, RemoteLost):
            raise
        except Exception as error:
            row = skipped(version, _reason(error), began, opened[-1] if opened else None)
        return self._report(row, pins)

    def _decide(self, session: ReleaseSession, pins: Pins) -> Tested:
        decision = decide(session.lab, session.probe, self._target, budget=self._sessions.setting.budget)
        row = tested(session, decision, self._sessions.setting.folder)
        place = self._sessions.place(session.version, pins)
        place.mkdir(parents=True, exist_ok=True)
        write_atomic(place / "tested.json", json.dumps(row.to_json(), indent=1, default=str))
        return row

    def _report(self, row: Tested, pins: Pins) -> Tested:
        pinned = " with " + ", ".join(f"{name} {version}" for name, version in pins) if pins else ""
        words = row.verdict.value + pinned + (f": {row.why}" if row.why else "")
        self._listener("judged", row.torch, words)
        return row

    def close(self) -> None:
        """Waits for running judgments; drops queued ones."""
        self._judges.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> ReleaseJudge:
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is not None:
            self._sessions.interrupt()
        self.close()


def tested(session: ReleaseSession, decision: Decision, root: Path) -> Tested:
    """Returns a decision as a row of the version axis."""
    outcome = decision.outcome
    return Tested(
        torch=session.version,
        verdict=decision.verdict,
        status=outcome.status,
        signature=decision.signature.line if decision.signature is not None else "",
        why=decision.why,
        runs=decision.runs,
        seconds=session.prober.seconds,
        environment=describe(session.environment, outcome, root),
        error=decision.error,
    )


def _reason(error: Exception) -> str:
    """Says why a release was not judged; an unforeseen exception is reported but must not end the line."""
    if isinstance(error, LabError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"internal error of accel-lab: {type(error).__name__}: {error} ({where})"


def skipped(version: str, why: str, began: float, environment: Environment | None = None) -> Tested:
    """Returns the row of a release that could not be judged at all."""
    return Tested(
        torch=version,
        verdict=Verdict.SKIP,
        why=why,
        runs=0,
        seconds=time.monotonic() - began,
        environment=describe(environment) if environment is not None else {},
    )

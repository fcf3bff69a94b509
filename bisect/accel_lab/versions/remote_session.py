"""Runs a question on a release, from another machine's recorded runs if there are any."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from accel_lab.core.errors import Unanswered
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.execution.prober import Prober
from accel_lab.execution.programs import folder_of
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.execution.warm import build_compiler_checks
from accel_lab.lab import LocalLab

from .build_verdict import TargetFailure
from .release_session import Pins, ReleaseListener, ReleaseSession, ReleaseSessions, silent
from .remote_release import RemoteRuns

_T = TypeVar("_T")


def answered(
    sessions: ReleaseSessions,
    version: str,
    ask: Callable[[ReleaseSession], _T],
    *,
    target: TargetFailure | None = None,
    pins: Pins = (),
    listener: ReleaseListener = silent,
) -> _T:
    """Returns what ``ask`` finds on a release (with companions pinned at ``pins``).

    If ``setting.remote`` makes the runs, they judge the release by ``target`` (None: the rungs of the
    matrix). Runs that are missing there are made here.
    """
    runs = None if pins or version in sessions.home else _remote_runs(sessions, version, target)
    if runs is not None:
        try:
            with _replayed(sessions, version, runs) as session:
                return ask(session)
        except Unanswered as error:
            listener("judged", version, f"is run here as well: {error}")
    with sessions.here if runs is not None else nullcontext():
        sessions.made(version, pins, listener)
        with sessions.session(version, pins) as session:
            prober = session.prober
            if not (_foreign(sessions) or prober.journal.answered):
                build_compiler_checks(prober.python, prober.workspace, prober.environment)
            return ask(session)


def _remote_runs(sessions: ReleaseSessions, version: str, target: TargetFailure | None) -> RemoteRuns | None:
    """Returns another machine's runs, from the release's folder; None if they are made here."""
    remote, folder = sessions.setting.remote, sessions.place(version)
    if remote is not None and not folder.exists():
        remote.fetch(version, sessions.spec(version), folder, target)
    return RemoteRuns.of(folder) if folder.exists() else None


def _foreign(sessions: ReleaseSessions) -> bool:
    """Whether the provider's builds do not run directly on this machine."""
    return getattr(sessions.provider, "runner", None) is not None


@contextmanager
def _replayed(sessions: ReleaseSessions, version: str, runs: RemoteRuns) -> Iterator[ReleaseSession]:
    """Yields a session that reads another machine's runs and makes none."""
    made, setting = runs.made(sessions.spec(version)), sessions.setting
    counted, lock = set[str](), threading.Lock()

    def count(event: str, probe: Probe, outcome: Outcome | None) -> None:
        with lock:
            if outcome is not None and probe.key not in counted:
                counted.add(probe.key)
                prober.asked += 1
                prober.seconds += outcome.seconds

    workspace = Workspace(sessions.place(version), folder_of(setting.program))
    prober = Prober(python=made.python, workspace=workspace, listener=count, replay=True)
    cold = sessions.cold(_foreign(sessions))
    session = ReleaseSession(
        version=version,
        environment=made,
        prober=prober,
        lab=LocalLab(prober, setting.oracle, cold_only=cold),
        cold=cold,
        probe=Probe(program=runs.program, environment=runs.identity, limits=setting.limits),
    )
    try:
        yield session
    finally:
        sessions.close_session(session)

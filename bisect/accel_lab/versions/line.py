"""The line of releases of ``--versions``: its provider, its sessions, and the searches on it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from accel_lab.core.errors import UsageError
from accel_lab.core.findings import Findings
from accel_lab.core.machine.environment import Environment, EnvironmentUnavailable, Provider, Release
from accel_lab.core.record import Record
from accel_lab.core.releases.versions import Tested, Versions
from accel_lab.core.verdict import Verdict
from accel_lab.environments.index.line import select
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.providers import provider
from accel_lab.execution.processes import process
from accel_lab.search.diagnosis import Options
from accel_lab.search.premise import Baseline

from .axis import VersionAxis, good_build
from .build_verdict import target_from
from .failing_release import FirstFailing, first_failing
from .flip_sides import Side, side_of
from .metric import MetricAxis
from .own_build import with_own
from .release_session import ReleaseListener, ReleaseSession, ReleaseSessions, Setting, describe, silent


@dataclass(frozen=True, kw_only=True)
class VersionsRequest(Record):
    """Which releases to follow, and how their environments are made.

    ``own``: the user named an interpreter to start with. ``companions``: swap companion packages at a flip.
    ``metric``: name and factor of the number to search for instead of a failure. ``change_s``: seconds per
    flip to find the piece of torch's sources that changed it; 0 skips it. ``git`` is a clone of PyTorch in
    which that piece's commits are looked up.
    """

    spec: str
    provider: str = "local"
    options: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    own: bool = False
    companions: bool = True
    metric: tuple[str, float] | None = None
    change_s: float = 0.0
    git: Path | None = None


#: Memory for two parallel releases, each with two runs and perhaps a warm server.
ROOM_MB = 6_000


class ReleaseLine:
    """Opens the provider, selects the releases, and follows one failure along them.

    Raises UsageError if the request selects no release.
    """

    def __init__(
        self,
        request: VersionsRequest,
        setting: Setting,
        *,
        listener: ReleaseListener = silent,
        maker: Provider | None = None,
    ) -> None:
        self._request = request
        self._listener = listener
        self._stop = threading.Event()
        run = functools.partial(process.run, stop=self._stop)
        self.provider: Provider = maker or provider(request.provider, request.options, run=run)
        self.sessions = ReleaseSessions(setting, self.provider)
        try:
            self.releases: Sequence[Release] = select(
                request.spec, self.provider.releases(pre=request.options.pre)
            )
            if not self.releases:
                raise UsageError(f"--versions {request.spec}: no release of torch in it is available")
        except BaseException:
            self.close()
            raise
        self.line = tuple(release.version for release in self.releases)
        self.axis: VersionAxis | None = None
        self.tried: FirstFailing | None = None
        self.metric: MetricAxis | None = None
        #: The release of the user's own build, if the script passes on it.
        self.own_passes = ""

    @property
    def side_by_side(self) -> int:
        """The number of releases that run at once: two, if the request allows it and memory suffices.

        Remote machines set their own number.
        """
        remote = self.sessions.setting.remote
        if remote is not None:
            return max(1, remote.side_by_side)
        room = available_mb()
        return 2 if self.sessions.setting.workers > 1 and (room is None or room >= ROOM_MB) else 1

    @property
    def notes(self) -> list[str]:
        """Notes of the provider and of the machines that ran releases, for the findings."""
        remote = self.sessions.setting.remote
        return [*getattr(self.provider, "notes", ()), *(remote.notes if remote is not None else ())]

    def first_failing(self) -> FirstFailing:
        """Finds a failing release, for a user whose own build passes."""
        self.tried = first_failing(self.sessions, self.line, self._listener)
        return self.tried

    def follow(
        self,
        base: Baseline,
        findings: Findings,
        options: Options,
        *,
        reference: str | None,
        here: str | None = None,
    ) -> Versions:
        """Follows the failure of ``base`` along the whole line.

        ``reference`` is the release that it was diagnosed on, in any environment; ``here`` is the same
        release if that was the line's own environment.
        """
        eager = bool(findings.outside) or (
            bool(findings.ladder) and findings.ladder[0].verdict is Verdict.BAD
        )
        target = target_from(base, eager=eager)
        known = list(self.tried.passing + self.tried.unavailable) if self.tried is not None else []
        side: Side | None = None
        if here is not None:
            known.append(_seen(here, self.sessions.environment(here), base, self.sessions.setting.folder))
            side = side_of(here, findings.ladder, findings.culprit)
        self.axis = VersionAxis(
            self.sessions,
            self.line,
            target,
            options,
            reference=reference if reference in self.line else None,
            side=side,
            known=known,
            companions=self._request.companions,
            change_s=self._request.change_s,
            clone=self._request.git,
            side_by_side=self.side_by_side,
            listener=self._listener,
        )
        return self.axis.run()

    def measure(self, metric: str, worse_by: float) -> MetricAxis:
        """Searches for releases at which a number becomes worse; needs no failure."""
        self.metric = MetricAxis(
            self.sessions,
            self.line,
            metric,
            worse_by,
            side_by_side=self.side_by_side,
            listener=self._listener,
        )
        self.metric.run()
        return self.metric

    @property
    def versions(self) -> Versions | None:
        """What is known of the line so far, or None."""
        if self.metric is not None:
            return self.metric.versions
        if self.axis is not None:
            return with_own(self.axis.versions, self.own_passes)
        if self.tried is None:
            return None
        return Versions(
            line=self.line,
            tested=tuple(sorted(self.tried.tested, key=lambda row: self.line.index(row.torch))),
            complete=False,
            why=f"no release that was tried fails: {len(self.tried.tested)} of {len(self.line)}",
        )

    @contextmanager
    def nearest_passing(self, bad: str) -> Iterator[ReleaseSession | None]:
        """Yields a session of the nearest passing release, or None: a smaller script must pass there."""
        version = good_build(self.axis.versions, bad) if self.axis is not None else None
        with ExitStack() as stack:
            session = None
            if version is not None:
                with suppress(EnvironmentUnavailable):
                    session = stack.enter_context(self.sessions.session(version))
            yield session

    def same_build(self, python: str) -> str | None:
        """Returns the release of the line whose environment is this interpreter, or None."""
        for version in self.line:
            spec = self.sessions.spec(version)
            if spec.provider == "local" and spec.python == python:
                return version
        return None

    def interrupt(self) -> None:
        """Stops all builds and runs."""
        self._stop.set()
        self.sessions.interrupt()

    def close(self) -> None:
        """Stops builds made ahead, and releases the environments."""
        self._stop.set()
        self.sessions.close()
        shut = getattr(self.provider, "close", None)
        if shut is not None:
            shut()

    def __enter__(self) -> ReleaseLine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def available_mb() -> float | None:
    """Returns the MB of memory available for more processes; None if the machine does not report it."""
    try:
        for row in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if row.startswith("MemAvailable:"):
                return int(row.split()[1]) / 1024
    except (OSError, ValueError, IndexError):
        return None
    return None


def _seen(version: str, environment: Environment, base: Baseline, root: Path) -> Tested:
    """Returns the row of the release that the failure was diagnosed on."""
    failing = [step for step in base.steps if step.verdict is Verdict.BAD]
    outcome = (failing or base.steps)[-1].outcome
    return Tested(
        torch=version,
        verdict=Verdict.BAD,
        status=outcome.status,
        signature=base.target.line if base.target is not None else "",
        runs=len(base.steps),
        seconds=sum(step.outcome.seconds for step in base.steps),
        environment=describe(environment, outcome, root),
    )

"""Opens a session per release: its environment, its folder below the run's, a prober and a lab."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import (
    Environment,
    EnvironmentId,
    EnvironmentSpec,
    EnvironmentUnavailable,
    Provider,
)
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.execution.auxiliary import Interrupted, Runner
from accel_lab.execution.lending.server_client import Servers
from accel_lab.execution.prober import Listener, Prober
from accel_lab.execution.processes import process
from accel_lab.execution.programs import folder_of
from accel_lab.execution.run_folder.folder_views import LINKS
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.lab import LocalLab, Oracle

from .remote_release import RemoteReleases

#: Companions pinned at a version: ``(("numpy", "1.26.4"),)``.
Pins = tuple[tuple[str, str], ...]

#: ``listener(event, version, words)``; events: ``making`` and ``made`` an environment, ``judged`` a release.
ReleaseListener = Callable[[str, str, str], None]


def silent(event: str, version: str, words: str) -> None:
    """A listener that does nothing."""


#: Provenance keys that are copied into the findings.
_PROVENANCE = ("python", "torch", "packages", "era", "slim", "notes", "digest")

#: Builds slower than this are announced.
QUIET_S = 3.0
#: Folder below the run's that holds one folder per release.
FOLDER = "versions"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How probes run on every release.

    ``cold`` says why no warm server is used; empty if one is. ``remote`` makes the runs that judge a release
    on other machines; None: they are made here.
    """

    program: Program
    folder: Path
    limits: Limits = field(default_factory=Limits)
    oracle: Oracle = field(default_factory=Oracle)
    stdin: Path | None = None
    cold: str = ""
    workers: int = 2
    keep: bool = False
    budget: float = 0.05
    listener: Listener | None = None
    servers: Servers | None = None
    remote: RemoteReleases | None = None


@dataclass(kw_only=True)
class ReleaseSession:
    """A release on which probes can run.

    Closing it closes ``prober``; its journal stays and is read again. ``cold`` says why no warm server is
    used; empty if one is.
    """

    version: str
    environment: Environment
    prober: Prober
    lab: LocalLab
    probe: Probe
    cold: str = ""

    @property
    def folder(self) -> Path:
        return self.prober.workspace.root


class ReleaseSessions:
    """Opens sessions, several at a time, and stops them all at once.

    At most ``workers`` cold runs run in parallel over all sessions. An environment is made once; after a
    failure it is not tried again in this process.
    """

    def __init__(self, setting: Setting, provider: Provider) -> None:
        self.setting = setting
        self.provider = provider
        self._gate = threading.BoundedSemaphore(max(1, setting.workers))
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._made: dict[str, Environment | EnvironmentUnavailable] = {}
        #: Releases that ran in the run's own folder, with their probes' name of the environment if it is not
        #: the usual one. Opened there again, they are answered from its journal.
        self.home: dict[str, EnvironmentId | None] = {}
        self._open: set[Prober] = set()
        self._fetcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fetch")
        self._stop = threading.Event()
        #: Held while one release is asked here because another machine could not answer.
        self.here = threading.Lock()
        self.asked = 0
        self.seconds = 0.0

    # -- environments --------------------------------------------------------------------------

    def spec(self, version: str, pins: Pins = ()) -> EnvironmentSpec:
        return self.provider.spec(version, pins=pins)

    def environment(self, version: str, pins: Pins = ()) -> Environment:
        """Returns the environment of a release; raises :class:`EnvironmentUnavailable` without one."""
        spec = self.spec(version, pins)
        with self._lock:
            turn = self._making.setdefault(spec.key, threading.Lock())
        with turn:
            known = self._made.get(spec.key)
            if known is None:
                if self._stop.is_set():
                    raise Interrupted("interrupted")
                try:
                    known = self.provider.make(spec)
                except EnvironmentUnavailable as error:
                    known = error
                self._made[spec.key] = known
        if isinstance(known, EnvironmentUnavailable):
            raise known
        return known

    def fetch(self, version: str, listener: ReleaseListener = silent) -> None:
        """Makes an environment in the background; a failure is raised when the environment is requested."""

        def quietly() -> None:
            try:
                self.made(version, listener=listener)
            except LabError:
                return

        self._fetcher.submit(quietly)

    def made(self, version: str, pins: Pins = (), listener: ReleaseListener = silent) -> Environment:
        """Returns the environment of a release; announces a slow build before and after."""
        late = threading.Timer(QUIET_S, listener, ("making", version, ""))
        late.daemon = True
        late.start()
        try:
            environment = self.environment(version, pins)
        finally:
            late.cancel()
        if not environment.cached:
            listener("made", version, f"{environment.seconds:.0f} s, {environment.size_bytes / 1e6:,.0f} MB")
        return environment

    def close(self) -> None:
        """Drops queued builds, and waits for the running one."""
        self._fetcher.shutdown(wait=True, cancel_futures=True)

    # -- sessions -------------------------------------------------------------------------------

    @contextmanager
    def session(self, version: str, pins: Pins = (), *, home: bool = False) -> Iterator[ReleaseSession]:
        """Opens a session of the release (with companions pinned at ``pins``), in its own folder.

        ``home``: in the run's own folder instead, from now on. Raises :class:`EnvironmentUnavailable` if the
        environment cannot be made.
        """
        session = self._open_session(version, pins, home)
        try:
            yield session
        finally:
            self.close_session(session)

    def _open_session(self, version: str, pins: Pins, home: bool) -> ReleaseSession:
        made = self.environment(version, pins)
        if home:
            self.home.setdefault(version, None)
        at_home = not pins and version in self.home
        root = self.setting.folder if at_home else self.place(version, pins)
        root.mkdir(parents=True, exist_ok=True)
        workspace = Workspace(root, folder_of(self.setting.program))
        runner = self._runner(made, workspace)
        foreign = runner is not None
        if foreign:
            workspace.folder_views.kind = LINKS
        prober = Prober(
            python=made.python,
            workspace=workspace,
            env=clean_environment(os.environ) if made.spec.provider != "local" else None,
            stdin=self.setting.stdin,
            listener=self.setting.listener,
            workers=self.setting.workers,
            keep=self.setting.keep,
            runner=gated(runner or process.run, self._gate),
            servers=self.setting.servers,
        )
        with self._lock:
            self._open.add(prober)
        if self._stop.is_set():
            prober.close()
            raise Interrupted("interrupted")
        cold = self.cold(foreign)
        return ReleaseSession(
            version=version,
            environment=made,
            prober=prober,
            lab=LocalLab(prober, self.setting.oracle, cold_only=cold),
            cold=cold,
            probe=Probe(
                program=self.setting.program,
                environment=(self.home[version] if at_home else None)
                or EnvironmentId.of_release(version, made.spec),
                limits=self.setting.limits,
            ),
        )

    def cold(self, foreign: bool) -> str:
        """Says why no warm server is used; empty if one is. ``foreign``: it does not run on this machine."""
        return self.setting.cold or ("it runs in a container" if foreign else "")

    def place(self, version: str, pins: Pins = ()) -> Path:
        """Returns the folder of a release, below the run's own."""
        name = "+".join([version, *(f"{package}-{held}" for package, held in pins)])
        return self.setting.folder / FOLDER / folder_name(name)

    def _runner(self, made: Environment, workspace: Workspace) -> Runner | None:
        """Returns what runs commands inside an environment that is not this machine, else None."""
        maker: Callable[[Environment, Workspace], Runner] | None = getattr(self.provider, "runner", None)
        return None if maker is None else maker(made, workspace)

    def close_session(self, session: ReleaseSession) -> None:
        """Stops the session's prober; adds its probes and seconds to the totals."""
        session.prober.close()
        with self._lock:
            self._open.discard(session.prober)
            self.asked += session.prober.asked
            self.seconds += session.prober.seconds

    def interrupt(self) -> None:
        """Stops everything that runs, in all releases; finished results stay in the journals."""
        self._stop.set()
        if self.setting.remote is not None:
            self.setting.remote.stop()
        with self._lock:
            probers = list(self._open)
        for prober in probers:
            prober.interrupt()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()


def gated(runner: Runner, gate: threading.BoundedSemaphore) -> Runner:
    """Returns the runner limited by ``gate``, so that all releases together use no more than the workers."""

    def run(*args: Any, **kwargs: Any) -> process.ProcessExit:
        stop: threading.Event | None = kwargs.get("stop")
        while not gate.acquire(timeout=0.5):
            if stop is not None and stop.is_set():
                return process.ProcessExit(limit="interrupted")
        try:
            return runner(*args, **kwargs)
        finally:
            gate.release()

    return run


def clean_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Returns the user's variables without those that lead a pinned build back to the lab's packages."""
    env = {k: v for k, v in base.items() if k not in ("PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")}
    own = [Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()]
    kept = [
        entry
        for entry in env.pop("PYTHONPATH", "").split(os.pathsep)
        if entry and not any(_inside(Path(entry), place) for place in own)
    ]
    return {**env, "PYTHONPATH": os.pathsep.join(kept)} if kept else env


def _inside(path: Path, place: Path) -> bool:
    try:
        return path.resolve().is_relative_to(place) and "site-packages" in path.parts
    except OSError:
        return False


def describe(
    environment: Environment, outcome: Outcome | None = None, root: Path | None = None
) -> dict[str, Any]:
    """Returns the environment for the findings, without the private package index.

    ``outcome`` is the deciding run; its folder is given relative to ``root``, the run's own.
    """
    row = environment.to_json()
    row["spec"].pop("index", None)
    row["provenance"] = {name: row["provenance"][name] for name in _PROVENANCE if name in row["provenance"]}
    if outcome is not None:
        folder = Path(outcome.folder)
        inside = root is not None and folder.is_relative_to(root)
        row["outcome"] = folder.relative_to(root).as_posix() if inside and root is not None else str(folder)
    return row


def folder_name(text: str) -> str:
    """Returns a file name that every file system accepts."""
    return re.sub(r"[^\w.+-]+", "-", text).strip("-.") or "release"

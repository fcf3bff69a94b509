"""Runs probes on the local machine: cold in a fresh process, or warm in a fork of the server.

The searches use only :meth:`Prober.ask` and an executor with the interface of ``concurrent.futures``, so only
this module knows that probes run here.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError, OutOfTime, Unanswered
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Job, Limits, Probe
from accel_lab.core.time_budget import TimeBudget
from accel_lab.core.untrusted.child_files import ChildFiles

from . import sanitizer
from .auxiliary import AuxiliaryCommands, Interrupted, Runner, auxiliary_folder
from .collect import collected
from .journal import Journal, write_atomic
from .lending.server_client import Servers, without_servers
from .processes import process
from .run_folder.child_jobs import command_of, job_of
from .run_folder.compiler_checks import CompilerChecks, share_headers
from .run_folder.workspace import Place, Workspace, write_job
from .warm import WarmServer, start_server

Listener = Callable[[str, Probe, "Outcome | None"], None]
LOG = logging.getLogger("accel_lab.prober")
#: Command of the child that describes the environment.
COLLECT = "collect_env"


class Prober:
    """Runs probes with one interpreter; every answer is written to the journal, and none is run twice.

    ``listener(event, probe, outcome)`` gets ``start``, ``end`` and ``cached``. It gets ``anew`` before the
    first probe of a run whose journal has answers of another protocol.
    """

    def __init__(
        self,
        *,
        python: str,
        workspace: Workspace,
        env: Mapping[str, str] | None = None,
        stdin: Path | None = None,
        listener: Listener | None = None,
        workers: int = 2,
        keep: bool = False,
        runner: Runner = process.run,
        replay: bool = False,
        time_budget: TimeBudget | None = None,
        servers: Servers | None = None,
    ) -> None:
        """``runner`` runs a command: on this machine, or in a container that sees the same folders.

        With ``replay`` nothing is run, and an answer that the journal lacks raises :class:`Unanswered`. A
        submitted probe that would start after the end of ``time_budget`` raises :class:`OutOfTime`. With
        ``servers`` the warm server may be a fork of a clean one that is kept there.
        """
        self.replay = replay
        self.time_budget = time_budget or TimeBudget()
        self.python = python
        self.workspace = workspace
        self.journal = Journal(workspace.root / "journal.jsonl", replay=replay)
        self._anew = self.journal.outdated is not None
        if self._anew:
            workspace.renew_child()
        self.asked, self.seconds = 0, 0.0
        self.environment = without_servers(os.environ if env is None else env)
        self._stdin = stdin
        self._listener = listener or (lambda event, probe, outcome: None)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._server: WarmServer | None = None
        self._cold_only = False
        self._wants_server = False
        self.fixed_seed = False  # repeats get the first run's random seed
        self._sanitizer: tuple[str, ...] | None = None
        self._heap: dict[str, str] = {}
        self._compiler_checks = CompilerChecks(python)
        self._servers = servers
        self._keep = keep
        self._runner = runner
        self._auxiliary = AuxiliaryCommands(
            python=python,
            workspace=workspace,
            environment=self.environment,
            runner=runner,
            stop=self._stop,
            replay=replay,
        )
        self._executor: Executor = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="probe")

    # -- probes --------------------------------------------------------------------------------

    def ask(self, probe: Probe, end: float | None = None) -> Outcome:
        """Returns the outcome of a probe, from the journal or by running it.

        Raises :class:`OutOfTime` if it would start after ``end`` (on the time budget's clock),
        :class:`Interrupted` after a stop, and :class:`Unanswered` in a replay without the answer.
        """
        known = self.journal.answer(probe.key)
        if known is not None:
            LOG.debug("in the journal: %s", probe.label)
            known = self._at_home(known) if self.replay else known
            self._listener("cached", probe, known)
            return known
        if end is not None and self.time_budget.clock() >= end:
            self.journal.left_out(probe.key, probe.label)
            raise OutOfTime(f"not started, as the time is used up: {probe.label}")
        if self.replay:
            if probe.key in self.journal.unasked:
                raise OutOfTime(f"not started in that run: {probe.label}")
            raise Unanswered(f"the run's journal has no answer to: {probe.label}")
        if self._stop.is_set():
            raise Interrupted("interrupted")
        self.workspace.expect_room()
        with self._lock:
            anew, self._anew = self._anew, False
        if anew:
            self._listener("anew", probe, None)
        self._listener("start", probe, None)
        LOG.info("run %s: %s", probe.key, probe.label)
        self.journal.started(probe.key, probe.label)
        outcome = self._run(probe)
        if self._stop.is_set():
            raise Interrupted("interrupted")
        if outcome.status is not Status.OK:
            self.workspace.expect_room()  # a full disk may be why the program failed
        self.journal.ended(probe.key, outcome)
        with self._lock:
            self.asked += 1
            self.seconds += outcome.seconds
        LOG.info("end %s: %s in %.1f s", probe.key, outcome.status.value, outcome.seconds)
        self._listener("end", probe, outcome)
        return outcome

    def _at_home(self, outcome: Outcome) -> Outcome:
        """Maps the outcome's folder into this run's folder, which may have moved or come from a stranger."""
        said, root = Path(os.path.realpath(outcome.folder)), Path(os.path.realpath(self.workspace.root))
        if not outcome.folder or root in said.parents:
            return outcome
        return replace(outcome, folder=str(self.workspace.root / "probes" / said.name))

    def submit(self, probe: Probe) -> Future[Outcome]:
        """Runs a probe in the background; ``workers`` limits how many run in parallel."""
        return self._executor.submit(self.ask, probe, self.time_budget.end)

    def warm_up(self) -> None:
        """Lets the warm server answer probes from now on.

        It starts in the background at once, but in a resumed run only when a probe needs it.
        """
        self._wants_server = hasattr(os, "fork")
        if not self.journal.answered and not self.replay:
            self._start_server()

    def _start_server(self) -> WarmServer | None:
        with self._lock:
            if self._server is None and self._wants_server and not self._cold_only:
                env = {**self.environment, **self._heap}
                kept = None if self._heap else self._servers  # a clean server was started without heap checks
                self._server = start_server(self.python, self.workspace, env, self._compiler_checks, kept)
            return self._server

    def go_cold(self) -> None:
        """Runs every probe in a fresh process from now on."""
        self._cold_only = True
        self._end_server()

    def check_heap(self, on: bool) -> None:
        """Has the allocator check each freed block, in all but plain runs from now on.

        The warm server is restarted, because a process decides on the checks when it starts.
        """
        self._heap = sanitizer.heap_checks(self.environment) if on else {}
        self._end_server()

    def _end_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def stopping(self) -> threading.Event:
        """Event that is set when the prober was asked to stop; auxiliary commands watch it too."""
        return self._stop

    @property
    def is_warm(self) -> bool:
        """Whether the warm server answers probes."""
        return self._wants_server and not self._cold_only

    def interrupt(self) -> None:
        """Stops everything that runs; finished answers stay in the journal."""
        self._stop.set()

    def close(self) -> None:
        """Stops the probes, the executor and the server, and closes the journal."""
        self._stop.set()
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._end_server()
        self.journal.close()

    def __enter__(self) -> Prober:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def child_output(self, name: str, words: Sequence[str], *, timeout_s: float = 180.0) -> str:
        """Returns what the child prints for a command other than a probe, such as ``doctor``.

        Raises :class:`LabError` if it fails.
        """
        return self._auxiliary.ask(name, words, timeout_s=timeout_s)

    def run_auxiliary(
        self, name: str, command: Sequence[str], *, timeout_s: float
    ) -> tuple[process.ProcessExit, Path]:
        """Runs any command where the probes run; returns how it ended, and its :func:`auxiliary_folder`."""
        return self._auxiliary.run(name, command, timeout_s=timeout_s)

    def collect_environment(self) -> dict[str, Any]:
        """Returns torch's ``collect_env`` of the probed build, and its C++ compiler; empty if that fails.

        The warm server answers within a second, because it has imported torch.
        """
        try:
            server = self._start_server() if self.is_warm else None
            said = self._ask_server(server) if server is not None else self.child_output(COLLECT, [COLLECT])
            facts = json.loads(said)
        except (LabError, OSError, ValueError):
            if self._stop.is_set():
                raise Interrupted("interrupted") from None
            return {}
        return {key: value for key, value in facts.items() if isinstance(value, str)}

    def _ask_server(self, server: WarmServer) -> str:
        folder = auxiliary_folder(self.workspace.root, COLLECT)
        out, err = folder / "out.txt", folder / "err.txt"
        marker = f"{COLLECT}-{uuid.uuid4().hex}"
        job: dict[str, Any] = {
            "id": marker,
            "program": None,
            "folder": str(folder),
            "cwd": str(folder),
            "stdin": "",
        }
        job |= {"stdout": str(out), "stderr": str(err), "env": {"ACCEL_LAB_PROBE": marker}}
        limits = Limits(timeout_s=120.0)
        server.run(job, outputs=(out, err), limits=limits, marker=marker, stop=self._stop)
        return ChildFiles(folder).text(out.name) or ""

    # -- running -------------------------------------------------------------------------------

    def _run(self, probe: Probe) -> Outcome:
        sanitized = dict(probe.switches).get("sanitize", False)
        if sanitized and not self._sanitizer_libraries():
            note = "the address sanitizer is not available: the C++ compiler does not bring its library"
            return Outcome(status=Status.NOT_APPLICABLE, notes=(note,))
        place = self.workspace.place(probe)
        warm, crash = self.is_warm and not (probe.cold or probe.bare or probe.edited or sanitized), ""
        if probe.edited is not None and not place.view.shows_edit(probe.edited):
            self.workspace.tidy(place)
            note = "edited scripts need a view of the script's folder, which is not available here"
            return Outcome(status=Status.NOT_APPLICABLE, notes=(note,))
        try:
            ended, warm = self._heard(probe, place, warm)
            outcome = collected(self.workspace, place, ended, probe, warm=warm)
            if warm and outcome.facts.get("crashed"):  # the warm server failed, not the program: run it cold
                crash = outcome.facts["crashed"]
                self.workspace.tidy(place)
                place = self.workspace.place(probe)
                ended, warm = self._heard(probe, place, False)
                outcome = collected(self.workspace, place, ended, probe, warm=warm)
            if crash:
                note = f"run again in a fresh process, because the warm server failed: {crash}"
                outcome = replace(outcome, notes=(*outcome.notes, note))
            if not warm:  # warm runs are too many, and the baseline's cold runs report it
                outcome = replace(outcome, notes=(*outcome.notes, *self._seen_outside()))
        finally:
            self.workspace.tidy(place, keep=self._keep)
        write_atomic(place.folder / "outcome.json", json.dumps(outcome.to_json(), indent=1, default=str))
        return outcome

    def _heard(self, probe: Probe, place: Place, warm: bool) -> tuple[process.ProcessExit, bool]:
        """Runs the probe; returns how it ended and whether it was warm. Raises Interrupted after a stop."""
        ended, warm = self._end(probe, place, warm)
        if ended.limit == "interrupted":
            raise Interrupted("interrupted")
        return ended, warm

    def _seen_outside(self) -> list[str]:
        """Returns new notes on how the user's folders are shown to runs, each note once."""
        with self._lock:
            notes, self.workspace.folder_views.notes[:] = list(self.workspace.folder_views.notes), []
        return [*notes, *filter(None, [self.workspace.folder_views.restore()])]

    def _end(self, probe: Probe, place: Place, warm: bool) -> tuple[process.ProcessExit, bool]:
        marker = f"{probe.key}-{uuid.uuid4().hex[:8]}"
        base = self.environment if probe.bare else {**self.environment, **self._heap}
        env = self.workspace.environment(place, base, probe.bare)
        if probe.bare and dict(probe.switches).get("disable_everywhere"):
            env["TORCHDYNAMO_DISABLE"] = "1"
        elif probe.bare and probe.switches:
            # A script that loads an accelerator by itself finds the lab's package, unless it has its own.
            paths = [env.get("PYTHONPATH", ""), str(self.workspace.library.parent)]
            env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        if dict(probe.switches).get("sanitize"):
            env = sanitizer.environment(
                {**env, **{key: self.environment.get(key, "") for key in self._heap}},
                place.folder,
                self._sanitizer_libraries(),
            )
        server = self._start_server() if warm else None
        if server is not None:
            changed = {k: v for k, v in env.items() if self.environment.get(k) != v}
            job = {**self._job(probe, place), "env": {**changed, "ACCEL_LAB_PROBE": marker}}
            write_job(place, job)
            try:
                ended = server.run(
                    job,
                    outputs=(place.stdout, place.stderr),
                    limits=probe.limits,
                    marker=marker,
                    stop=self._stop,
                    written=place.written,
                )
                return ended, True
            except LabError:
                if self._stop.is_set():
                    raise Interrupted("interrupted") from None
                self.go_cold()
        return self._cold(probe, place, env, marker), False

    def _sanitizer_libraries(self) -> tuple[str, ...]:
        """Returns the libraries to preload for the sanitizer, as the compiler reports them."""
        with self._lock:
            if self._sanitizer is None:
                words = sanitizer.compiler_words(self.environment)
                ended, folder = self.run_auxiliary("sanitizer", words, timeout_s=60.0)
                said = ChildFiles(folder).text("out.txt") or ""
                self._sanitizer = sanitizer.libraries(said) if ended.exit_code == 0 else ()
            return self._sanitizer

    def _cold(self, probe: Probe, place: Place, env: dict[str, str], marker: str) -> process.ProcessExit:
        if "measure" not in dict(probe.switches):
            self._compiler_checks.lend(place.cache)
            share_headers(place.temporary, self.environment)
        job = None if probe.bare else write_job(place, self._job(probe, place))
        return self._runner(
            command_of(self.python, probe, place, library=self.workspace.library, job=job),
            cwd=place.cwd,
            env=env,
            stdout=place.stdout,
            stderr=place.stderr,
            limits=probe.limits,
            marker=marker,
            stdin=self._stdin,
            stop=self._stop,
            written=place.written,
        )

    def _job(self, probe: Probe, place: Place) -> Job:
        return job_of(probe, place, seed=0 if self.fixed_seed else probe.attempt, stdin=self._stdin)

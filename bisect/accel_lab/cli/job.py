"""Shared by commands that run a program: builds the request from the options and runs it."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from accel_lab.cli.engine_options import Cluster
from accel_lab.cli.environment_options import read_options
from accel_lab.cli.finish import exit_code, show, write_files
from accel_lab.cli.options import RUN_FOLDERS, find_python, limits_from, read_stdin, split_program
from accel_lab.cli.progress import Progress
from accel_lab.cli.release_cluster import releases
from accel_lab.core.errors import DiskFull, LabError, UsageError
from accel_lab.core.machine.environment import EnvironmentId
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.core.text import command_line
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.execution.builds import Build, inspect_build
from accel_lab.execution.lending.server_client import Servers, servers_of
from accel_lab.execution.prober import Prober
from accel_lab.execution.programs import folder_of, read_program
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.lab import Oracle
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.request import Request, load_request, opened
from accel_lab.session import Session
from accel_lab.versions.line import VersionsRequest
from accel_lab.versions.remote_release import RemoteReleases

#: Default seconds for which a warm server is kept at a terminal.
_KEEP_S = 600.0


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """The options of ``program_options`` and ``job_options``, as click passes them."""

    program: tuple[str, ...]
    module: str | None
    python: str | None
    timeout: float
    memory: int
    max_disk: int
    stdin: str | None
    out: str | None
    check: str | None
    fail_regex: str | None
    signed_zero: bool
    cold: bool
    keep: bool
    bundle: bool
    verify: bool
    resume: str | None
    package: str | None
    jobs: int
    as_json: bool
    quiet: bool
    fresh: bool
    keep_server: float | None

    def earlier(self) -> tuple[Request, Path] | None:
        """Returns the request and the folder of the run that ``--resume`` names, or None without it."""
        if self.resume is None:
            return None
        if self.program or self.module:
            raise UsageError("--resume takes the program from the run's folder: give no script")
        folder = Path(self.resume).resolve()
        return load_request(folder), folder

    def servers(self) -> Servers | None:
        """Returns the store of clean warm servers, or None if the run uses only a server of its own.

        A user at a terminal is likely to bisect again. Elsewhere (scripts, tests, containers) no process is
        left behind unless ``--keep-server`` asks for it.
        """
        keep_s = self.keep_server
        if keep_s is None:
            keep_s = _KEEP_S if sys.stderr.isatty() else 0.0
        return None if self.fresh else servers_of(os.environ, keep_s=keep_s)

    def request(self) -> Request:
        """Builds the request from the options. Raises :class:`UsageError`."""
        script, args = split_program(self.module, self.program)
        try:
            re.compile(self.fail_regex or "")
        except re.error as error:
            raise UsageError(f"--fail-regex is not a regular expression: {error}") from None
        return Request(
            program=read_program(script, self.module, args),
            python=find_python(self.python),
            out=Path(self.out).resolve() if self.out else None,
            limits=limits_from(self.timeout, self.memory, self.max_disk),
            oracle=Oracle(
                check=self.check,
                fail_regex=self.fail_regex,
                comparison=ComparisonConfig(signed_zero=self.signed_zero),
            ),
            cold=self.cold,
            stdin=read_stdin(self.stdin),
            workers=self.jobs,
            package=Path(self.package).resolve() if self.package else None,
        )


@dataclass(frozen=True, kw_only=True)
class SingleRun:
    """One run of a program: its interpreter, its folder and its outcome."""

    program: Program
    build: Build
    workspace: Workspace
    outcome: Outcome


def run_once(
    *,
    command: str,
    rung: Rung,
    switches: tuple[tuple[str, Any], ...] = (),
    keep: bool = False,
    **words: Any,
) -> SingleRun:
    """Runs the program of ``program_options`` once, in a fresh process, under one rung."""
    return run_each([Question(rung=rung, switches=switches)], command=command, keep=keep, **words)[0]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One run that a command asks for: rung, extra switches, and the number of the repeat."""

    rung: Rung
    switches: tuple[tuple[str, Any], ...] = ()
    attempt: int = 0


#: Returns the next questions, given the answers so far; empty to stop.
NextQuestions = Callable[[list[SingleRun]], Sequence[Question]]


def run_each(
    questions: Sequence[Question],
    *,
    command: str,
    next_questions: NextQuestions | None = None,
    program: tuple[str, ...],
    module: str | None,
    python: str | None,
    timeout: float,
    memory: int,
    max_disk: int,
    stdin: str | None,
    out: str | None,
    keep: bool = False,
) -> list[SingleRun]:
    """Runs the program of ``program_options`` once for each question, each in a fresh process.

    ``command`` is written into the marker of the run's folder. ``next_questions`` gets the answers so far and
    returns more questions, until it returns none.
    """
    script, args = split_program(module, program)
    request = Request(
        program=read_program(script, module, args),
        python=find_python(python),
        out=Path(out).resolve() if out else None,
    )
    request, folder = opened(request, command)
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta.setdefault(RUN_FOLDERS, []).append(folder)
    with held(folder):
        limits = limits_from(timeout, memory, max_disk)
        return _asked(request, folder, limits, questions, keep, read_stdin(stdin), next_questions)


def _asked(
    request: Request,
    folder: Path,
    limits: Limits,
    questions: Sequence[Question],
    keep: bool,
    stdin: Path | None,
    next_questions: NextQuestions | None,
) -> list[SingleRun]:
    build = inspect_build(request.python, folder)
    workspace = Workspace(folder, folder_of(request.program))
    with Prober(python=build.python, workspace=workspace, stdin=stdin, keep=keep) as prober:
        answers: list[SingleRun] = []
        asked = list(questions)
        while asked:
            answers += [
                SingleRun(
                    program=request.program,
                    build=build,
                    workspace=workspace,
                    outcome=prober.ask(
                        Probe(
                            program=request.program,
                            rung=question.rung,
                            switches=question.switches,
                            environment=EnvironmentId.of_interpreter(build.python, build.torch),
                            limits=limits,
                            cold=True,
                            attempt=question.attempt,
                        )
                    ),
                )
                for question in asked
            ]
            asked = list(next_questions(answers)) if next_questions is not None else []
        return answers


def require_run(outcome: Outcome, what: str = "the script") -> None:
    """Raises :class:`LabError` if the program was not run at all."""
    if not outcome.was_run:
        raise LabError(f"{what} could not be run: {'; '.join(outcome.notes) or outcome.status.value}")


def read_line(spec: str, words: dict[str, Any], given: JobOptions, request: Request) -> VersionsRequest:
    """Builds the request for a line of releases from ``--versions`` and ``environment_options``."""
    script = Path(request.program.path) if request.program.path is not None else None
    provider, options = read_options(words, script)
    return VersionsRequest(spec=spec, provider=provider, options=options, own=given.python is not None)


def work(
    given: JobOptions,
    request: Request,
    folder: Path,
    *,
    command: str = "bisect",
    tables: bool = True,
    cluster: Cluster | None = None,
) -> int:
    """Runs a session, writes its files and prints the result; returns the exit code.

    ``tables`` also prints the tables. ``cluster`` runs the releases of ``--versions``. The folder's lock is
    held until everything is written.
    """
    with resumable(folder, command), held(folder) as mine:
        if mine.ended:
            sys.stderr.write(f"ended {mine.ended} processes that a lab which was killed had left\n")
        progress = Progress(quiet=given.quiet, program=request.program.path, folder=folder)
        with releases(
            cluster, request, folder, command=command, listener=lambda line: progress.say(f"… {line}")
        ) as remote:
            return _work(given, request, folder, progress, remote, command=command, tables=tables)


@contextmanager
def resumable(folder: Path, command: str) -> Iterator[None]:
    """Turns a full disk into a :class:`DiskFull` that says how to resume."""
    try:
        yield
    except (OSError, DiskFull) as error:
        if isinstance(error, OSError):
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            error = DiskFull(f"the disk is full ({error.filename or folder})")
        raise DiskFull(
            f"{error}: free some space, then go on with: accel-lab {command} --resume {folder}"
        ) from None


def _work(
    given: JobOptions,
    request: Request,
    folder: Path,
    progress: Progress,
    remote: RemoteReleases | None,
    *,
    command: str,
    tables: bool,
) -> int:
    session = Session(
        replace(request, keep=given.keep),
        folder,
        progress,
        progress.smaller,
        progress.release,
        collect=given.bundle,
        on_phase=progress.phase,
        servers=(servers := given.servers()),
        remote=remote,
    )
    try:
        findings = session.run()
    except (Interrupted, KeyboardInterrupt):
        progress.done()
        again = command_line("accel-lab", command, "--resume", folder)
        sys.stderr.write(f"interrupted; go on with: {again}\n")
        found = session.findings
        if found is not None and found.baseline:
            write_files(found, folder, bundle=False)
            if found.repro is not None and found.repro.script:
                sys.stderr.write(f"the smallest program so far: {found.repro.script}\n")
        return 130
    verify = given.verify and session.time_budget.remaining_s != 0.0
    if given.bundle and given.verify and not verify and findings.verdict != "passes":
        session.time_budget.note_unasked("the run that verifies the bundle")
    if given.bundle and verify and findings.verdict != "passes":
        progress.say("… the bundle is run once from a clean folder (--no-verify leaves that out)")
    if servers is not None and servers.leaves_one():
        progress.say(
            f"… a warm server is kept for the next run on this build, for {servers.keep_s / 60:g} minutes "
            "(accel-lab clean --servers ends it)"
        )
    progress.done()
    write_files(findings, folder, bundle=given.bundle, verify=verify, fresh=True)
    show(findings, as_json=given.as_json, tables=tables and not given.quiet)
    return exit_code(findings)

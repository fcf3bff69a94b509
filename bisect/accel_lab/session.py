"""Runs one request to its findings, by one of three plans: diagnose, follow versions, measure."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from accel_lab import completion, workarounds
from accel_lab.core.errors import LabError, Unanswered, UsageError
from accel_lab.core.findings import Findings
from accel_lab.core.machine.environment import EnvironmentId
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.probe import Limits, Probe
from accel_lab.core.stages import Stage
from accel_lab.core.time_budget import PhaseListener, TimeBudget, ignore_phase
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.execution.builds import inspect_build, public_version
from accel_lab.execution.lending.server_client import Servers
from accel_lab.execution.prober import Listener, Prober
from accel_lab.execution.processes.interruptible import Interruptible
from accel_lab.execution.programs import folder_of, must_run_cold, read_program
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.lab import LocalLab
from accel_lab.minimize.accelerator_binding import MOCK, binding_of
from accel_lab.minimize.minimizer import Minimizer
from accel_lab.minimize.result import PassingBuild, interrupted
from accel_lab.request import Request, opened
from accel_lab.search.accelerator.diagnosis import AcceleratorDiagnosis
from accel_lab.search.bisection import Bisection
from accel_lab.search.diagnosis import Diagnosis
from accel_lab.search.premise import Baseline
from accel_lab.versions import diagnosis_target
from accel_lab.versions.diagnosis_target import DiagnosisTarget, target_of
from accel_lab.versions.line import ReleaseLine, VersionsRequest
from accel_lab.versions.release_session import ReleaseListener, ReleaseSession, Setting, silent
from accel_lab.versions.remote_release import RemoteReleases


def search_for(request: Request, target: DiagnosisTarget) -> Bisection:
    """Returns the search for the request: torch's ladder or an accelerator's.

    Raises :class:`UsageError` for an accelerator that the build does not have, and :class:`LabError` if its
    adapters cannot be listed.
    """
    lab, probe, options, name = target.lab, target.probe, request.options, request.accelerator
    if not name:
        return Diagnosis(lab, probe, options)
    if name == MOCK:
        return AcceleratorDiagnosis(lab, probe, options)
    known = target.build.facts.get("accelerators", [])
    if isinstance(known, dict):
        raise LabError(f"the adapters of {target.build.python} cannot be listed: {known.get('error')}")
    if name not in known:
        raise UsageError(
            f"there is no accelerator {name!r} in {target.build.python}: there is {', '.join(known)} "
            "(a package adds its own by the entry-point group accel_lab.adapters)"
        )
    return AcceleratorDiagnosis(lab, probe, options, adapter=name)


class Session:
    """Runs a request in a folder; on an existing folder it resumes the run."""

    def __init__(
        self,
        request: Request,
        folder: Path,
        listener: Listener | None = None,
        reducing: Callable[[str, int, str], None] | None = None,
        release_listener: ReleaseListener = silent,
        replay: bool = False,
        collect: bool = False,
        on_phase: PhaseListener = ignore_phase,
        servers: Servers | None = None,
        remote: RemoteReleases | None = None,
    ) -> None:
        """``reducing(note, candidates tried, source)`` is called for every smaller program.

        ``release_listener(event, release, words)`` is called for every step on a line of releases. ``replay``
        rereads the answers of a finished run and starts no program. ``collect`` also records ``collect_env``
        if the script fails. ``on_phase(words, seconds)`` is called when a phase of the search begins;
        ``seconds`` is its limit. ``servers`` keeps clean warm servers between runs. ``remote`` runs the
        releases of a line on a cluster.
        """
        self.time_budget = TimeBudget(limit_s=None if replay else request.options.time_s, on_phase=on_phase)
        self._collect = collect
        self._servers, self._remote = servers, remote
        self.request = request
        self.folder = folder
        self._listener = listener
        self._reducing = reducing
        self._release_listener = release_listener
        self.replay = replay
        self._cold = "cold runs were requested" if request.cold else must_run_cold(request.program)
        self._target: DiagnosisTarget | None = None
        self._bisected_s = 0.0
        self.line: ReleaseLine | None = None
        self.findings: Findings | None = None

    def run(self) -> Findings:
        """Returns the findings; an interruption raises and leaves the partial ones in ``self.findings``."""
        with held(self.folder):
            self.time_budget.start()
            if not self.replay:
                write_atomic(self.folder / "request.json", json.dumps(self.request.to_json(), indent=1))
            versions = self.request.versions
            if versions is None:
                self._diagnose_own_build()
            elif versions.metric is None:
                self._follow_versions(versions)
            else:
                self._measure(versions, *versions.metric)
        assert self.findings is not None
        return self.findings

    # -- the three plans -----------------------------------------------------------------------

    def _diagnose_own_build(self) -> None:
        started = time.monotonic()
        with self._own_build() as target, Interruptible([target.prober.interrupt]), self._described(started):
            self._finish(target, self._diagnose(target))

    def _follow_versions(self, versions: VersionsRequest) -> None:
        """Bisects on the user's own build, else on a release that fails; then follows the failure."""
        started = time.monotonic()
        with self._open_line(versions) as line, ExitStack() as stack:
            own: DiagnosisTarget | None = None
            try:
                own = stack.enter_context(self._own_build())
            except LabError:
                if versions.own or self.replay:
                    raise
            stops = [line.interrupt, *([own.prober.interrupt] if own is not None else [])]
            with Interruptible(stops), self._described(started):
                if own is None:
                    self._bisect_a_release(line, stack)
                    return
                release = line.same_build(own.build.python)
                if release is not None:
                    # The user's build is one of the releases: its probes are reused for that release.
                    line.sessions.home[release] = own.probe.environment
                diagnosis = self._diagnose(own)
                if diagnosis.findings.verdict != "passes":
                    self._follow(line, own, diagnosis, release)
                    return
                line.own_passes = public_version(own.build.torch)
                self._bisect_a_release(line, stack)

    def _measure(self, versions: VersionsRequest, metric: str, worse_by: float) -> None:
        """Searches the releases for the one at which a metric becomes worse; no stage is localized."""
        started = time.monotonic()
        with self._open_line(versions) as line, Interruptible([line.interrupt]), self._described(started):
            self.findings = Findings(program=self.request.program)
            axis = line.measure(metric, worse_by)
            judged = any(row.verdict is not Verdict.SKIP for row in axis.versions.tested)
            self.findings.verdict = "fails" if axis.worse else "passes" if judged else "inconclusive"

    # -- their steps -----------------------------------------------------------------------------

    def _bisect_a_release(self, line: ReleaseLine, stack: ExitStack) -> None:
        """Bisects on the first release that fails; used if the user's own build passes or has no torch.

        ``stack`` keeps that release's session open until the findings are complete.
        """
        own = self.findings
        version = line.first_failing().version
        if version is None:
            self.findings = own or completion.nothing_fails(self.request.program, line)
            return
        target = target_of(stack.enter_context(line.sessions.session(version, home=True)))
        diagnosis = self._diagnose(target)
        if own is not None:
            completion.note_own_build(own, diagnosis.findings)
        self._follow(line, target, diagnosis, version)

    def _follow(
        self, line: ReleaseLine, target: DiagnosisTarget, diagnosis: Bisection, release: str | None
    ) -> None:
        """Follows the failure over the releases, then finishes.

        ``release`` is the release that ``target`` runs, or None if its build is not on the line.
        """
        findings, base = diagnosis.findings, diagnosis.baseline
        if base is None or base.target is None or not worth_following(findings):
            self._finish(target, diagnosis)
            return
        reference = release or public_version(target.build.torch)
        line.sessions.setting = replace(line.sessions.setting, limits=diagnosis.probe.limits)
        line.follow(base, findings, self.request.options, reference=reference, here=release)
        findings.versions = line.versions
        if not self._minimizes(findings):
            self._finish(target, diagnosis)
            return
        with line.nearest_passing(reference) as good:
            self._finish(target, diagnosis, passing_build_of(good) if good is not None else None)

    def _diagnose(self, target: DiagnosisTarget) -> Bisection:
        diagnosis = search_for(self.request, target)
        self.findings, self._target = diagnosis.findings, target
        diagnosis_target.record(target, self.folder)
        began = time.monotonic()
        diagnosis.run()
        self._bisected_s = time.monotonic() - began
        return diagnosis

    def _minimizes(self, findings: Findings) -> bool:
        return self.request.minimize_s > 0 and findings.verdict == "fails"

    def _finish(
        self, target: DiagnosisTarget, diagnosis: Bisection, passing_build: PassingBuild | None = None
    ) -> None:
        """Tests workarounds, minimizes and records the environment, as far as the request asks for it."""
        findings = diagnosis.findings
        completion.keep_kernel_script(findings, self.folder)
        completion.keep_accelerator_files(findings, self.folder)
        given = self.request.workarounds_s
        share = max(workarounds.LEAST_S, workarounds.SHARE * self._bisected_s)
        budget_s = 0.0 if self.request.accelerator else share if given is None else given
        left = self.time_budget.remaining_s
        if left is not None and budget_s > 0 and findings.verdict == "fails":
            budget_s = min(budget_s, left)
            if budget_s <= 0:
                self.time_budget.note_unasked("workarounds in the script's own lines")
        began = time.monotonic()
        workarounds.add_workarounds(findings, diagnosis, target, budget_s=budget_s)
        findings.seconds_workarounds = time.monotonic() - began
        if self._minimizes(findings):
            self._minimize(target, diagnosis, passing_build)
        collected = self.folder / completion.COLLECTED
        if self._collect and findings.verdict != "passes" and not collected.exists():
            write_atomic(collected, json.dumps(target.prober.collect_environment(), indent=1))

    # -- builds --------------------------------------------------------------------------------

    @contextmanager
    def _own_build(self) -> Iterator[DiagnosisTarget]:
        """Opens the interpreter that the user named, or in a replay the recorded one.

        Raises :class:`LabError` if the interpreter has no torch.
        """
        request = self.request
        if self.replay:
            earlier = diagnosis_target.recorded(self.folder)
            if earlier is None:
                raise Unanswered("the run's folder does not say which interpreter it ran on")
        else:
            build = inspect_build(request.python, self.folder)
            earlier = diagnosis_target.RecordedTarget(
                build=build,
                environment=EnvironmentId.of_interpreter(build.python, build.torch),
                provider="local",
                cold=self._cold,
            )
        with Prober(
            python=earlier.build.python,
            workspace=Workspace(self.folder, folder_of(request.program)),
            stdin=request.stdin,
            listener=self._listener,
            workers=request.workers,
            keep=request.keep,
            replay=self.replay,
            time_budget=self.time_budget,
            servers=self._servers,
        ) as prober:
            yield DiagnosisTarget(
                prober=prober,
                lab=LocalLab(prober, request.oracle, cold_only=earlier.cold),
                probe=Probe(program=request.program, environment=earlier.environment, limits=request.limits),
                build=earlier.build,
                provider=earlier.provider,
                cold=earlier.cold,
            )

    @contextmanager
    def _open_line(self, versions: VersionsRequest) -> Iterator[ReleaseLine]:
        """Opens the line of releases with the settings that all its probes share."""
        request = self.request
        setting = Setting(
            program=request.program,
            folder=self.folder,
            limits=request.limits,
            oracle=request.oracle,
            stdin=request.stdin,
            cold=self._cold,
            workers=request.workers,
            keep=request.keep,
            listener=self._listener,
            servers=self._servers,
            remote=self._remote,
        )
        with ReleaseLine(versions, setting, listener=self._release_listener) as line:
            self.line = line
            yield line

    def _minimize(
        self, target: DiagnosisTarget, diagnosis: Bisection, passing_build: PassingBuild | None
    ) -> None:
        """Shrinks the graph and the script; if interrupted, the smallest program so far is kept."""
        findings, base = diagnosis.findings, diagnosis.baseline
        assert base is not None
        seconds = self._time_to_minimize(base)
        if seconds <= 0:
            self.time_budget.note_unasked("a smaller script")
            return
        minimizer = Minimizer(
            lab=target.lab,
            probe=diagnosis.probe,
            base=base,
            findings=findings,
            folder=self.folder,
            seconds=seconds,
            build=target.build.torch,
            passing_build=passing_build,
            pair=diagnosis.pair,
            backend=binding_of(self.request.accelerator, target.build.facts, findings),
            workers=self.request.workers,
            listener=self._reducing,
            package=self.request.package,
            stdin=self.request.stdin.name if self.request.stdin is not None else "",
        )
        try:
            with (
                self.time_budget.without_deadline()
            ):  # it has its own time limit, and the final proof must complete
                findings.repro = minimizer.run()
        except Interrupted:
            findings.repro = interrupted(self.folder)
            raise

    def _time_to_minimize(self, base: Baseline) -> float:
        """Returns the seconds for minimizing; with a time budget, three runs are held back for the final
        proof.

        The proof may exceed the budget, because an unproven script is no result.
        """
        wanted, left = self.request.minimize_s, self.time_budget.remaining_s
        if left is None:
            return wanted
        return min(wanted, left - 3 * max((step.outcome.seconds for step in base.steps), default=0.0))

    # -- the findings --------------------------------------------------------------------------

    @contextmanager
    def _described(self, started: float) -> Iterator[None]:
        """Completes the findings (environment, counts, warnings, seconds), also after an exception."""
        try:
            yield
        finally:
            if self.findings is not None:
                completion.describe(
                    self.findings, self.folder, self._target, self.line, self.request.accelerator
                )
                self.findings.seconds_total = time.monotonic() - started


def passing_build_of(session: ReleaseSession) -> PassingBuild:
    """Returns a release that passes in the form in which the reducer checks candidates on it."""
    return PassingBuild(name=f"torch {session.version}", lab=session.lab, probe=session.probe)


def worth_following(findings: Findings) -> bool:
    """Whether other releases are worth running: false if the machine itself is at fault."""
    return findings.culprit is None or findings.culprit.stage is not Stage.ENVIRONMENT


def bisect_script(
    script: str | Path,
    args: tuple[str, ...] = (),
    *,
    python: str = sys.executable,
    out: str | Path | None = None,
    timeout_s: float = 300.0,
) -> Findings:
    """Finds the stage at which ``script`` fails under ``torch.compile``; the Python form of the command.

    ``timeout_s`` limits each run, in seconds. Nothing is printed; the run's folder is ``Findings.artifacts``.
    Raises :class:`UsageError` for an invalid script and :class:`LabError` if the lab cannot bisect, for
    instance if ``python`` has no torch.
    """
    request = Request(
        program=read_program(str(script), None, args),
        python=python,
        out=Path(out) if out is not None else None,
        limits=Limits(timeout_s=timeout_s),
    )
    return Session(*opened(request)).run()

"""One bisection from options to findings: the run folder, the interpreter, the search, the report."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from accel_lab.core.errors import LabError, Unanswered, UsageError
from accel_lab.core.findings import Findings
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Stage
from accel_lab.core.text import command_line
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.core.verdict import Verdict
from accel_lab.execution.builds import inspect_build, public_version
from accel_lab.execution.journal import write_atomic
from accel_lab.execution.notebooks import said_of
from accel_lab.execution.prober import Interrupted, Listener, Prober
from accel_lab.execution.processes.interruptible import Interruptible
from accel_lab.execution.programs import folder_of, must_run_cold, not_covered, read_program
from accel_lab.execution.run_folder.lock import held
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.lab import LocalLab
from accel_lab.minimize.asked_accelerator import MOCK, binding_of, variables_of
from accel_lab.minimize.minimizer import Elsewhere, Minimizer, interrupted
from accel_lab.request import Request, opened
from accel_lab.search.accelerator.diagnosis import AcceleratorDiagnosis
from accel_lab.search.alternatives.outside_ladder import about_entries
from accel_lab.search.bisection import Bisection
from accel_lab.search.diagnosis import Diagnosis
from accel_lab.versions.diagnosis_target import DiagnosisTarget, keep_ground, kept_ground, on_bench
from accel_lab.versions.line import ReleaseLine
from accel_lab.versions.release_session import ReleaseListener, ReleaseSession, Setting, silent

#: Where a run keeps what torch's ``collect_env`` told.
COLLECTED = "collect_env.json"


def search_for(request: Request, ground: DiagnosisTarget) -> Bisection:
    """The search that is asked for; raises :class:`UsageError` for an accelerator that is not there."""
    lab, probe, options, name = ground.lab, ground.probe, request.options, request.accelerator
    if not name:
        return Diagnosis(lab, probe, options)
    if name == MOCK:
        return AcceleratorDiagnosis(lab, probe, options)
    known = ground.build.facts.get("accelerators", [])
    if isinstance(known, dict):
        raise LabError(f"the adapters of {ground.build.python} cannot be told: {known.get('error')}")
    if name not in known:
        raise UsageError(
            f"there is no accelerator {name!r} in {ground.build.python}: there is {', '.join(known)} "
            "(a package adds its own by the entry-point group accel_lab.adapters)"
        )
    return AcceleratorDiagnosis(lab, probe, options, adapter=name)


class Session:
    """Runs a request in a folder. ``resume`` is the same call on a folder that exists already."""

    def __init__(
        self,
        request: Request,
        folder: Path,
        listener: Listener | None = None,
        reducing: Callable[[str, int, str], None] | None = None,
        release_listener: ReleaseListener = silent,
        replay: bool = False,
        collect: bool = False,
    ) -> None:
        """``reducing(note, candidates asked, source)`` is told of every smaller program.

        ``release_listener(event, release, words)`` is called for every step on a line of releases.
        ``replay``: the folder holds a finished run, whose answers are read again on the build that gave them.
        ``collect``: also records the environment as an issue form wants it, where the script fails.
        """
        self._collect = collect
        self.request = request
        self.folder = folder
        self._listener = listener
        self._reducing = reducing
        self._release_listener = release_listener
        self.replay = replay
        self._ground: DiagnosisTarget | None = None
        self.line: ReleaseLine | None = None
        self.findings: Findings | None = None

    def run(self) -> Findings:
        """The findings; on an interruption those so far, with ``verdict`` left inconclusive."""
        with held(self.folder):
            return self._run()

    def _run(self) -> Findings:
        started = time.monotonic()
        request = self.request
        if not self.replay:
            write_atomic(self.folder / "request.json", json.dumps(request.to_json(), indent=1))
        cold = "you asked for cold runs" if request.cold else must_run_cold(request.program)
        with ExitStack() as stack:
            asked = request.versions
            if asked is not None:
                self.line = stack.enter_context(
                    ReleaseLine(asked, self._setting(cold), listener=self._release_listener)
                )
            line = self.line
            metric = asked.metric if asked is not None else None
            ground = None
            if metric is None:
                ground = self._own(stack, cold, needed=asked is None or asked.own)
            stops = [line.interrupt] if line is not None else []
            with Interruptible([*stops, *([ground.prober.interrupt] if ground is not None else [])]):
                try:
                    if line is not None and metric is not None:
                        self._measure(line, *metric)
                    else:
                        self._find(stack, ground, line)
                finally:
                    self._describe(line, started)
        assert self.findings is not None
        return self.findings

    def _own(self, stack: ExitStack, cold: str, *, needed: bool) -> DiagnosisTarget | None:
        """The interpreter that the user named; None where it has no torch and the line will do."""
        request = self.request
        kept = kept_ground(self.folder) if self.replay else None
        if self.replay and kept is None:
            raise Unanswered("the run's folder does not say which interpreter it ran on")
        try:
            build = kept[0] if kept is not None else inspect_build(request.python, self.folder)
        except LabError:
            if needed:
                raise
            return None
        cold = kept[3] if kept is not None else cold
        prober = Prober(
            python=build.python,
            workspace=Workspace(self.folder, folder_of(request.program)),
            stdin=request.stdin,
            listener=self._listener,
            workers=request.workers,
            keep=request.keep,
            replay=self.replay,
        )
        stack.enter_context(prober)
        return DiagnosisTarget(
            prober=prober,
            lab=LocalLab(prober, request.oracle, cold_only=cold),
            probe=Probe(
                program=request.program,
                environment=kept[1] if kept is not None else f"{build.python} torch {build.torch}",
                limits=request.limits,
            ),
            build=build,
            provider=kept[2] if kept is not None else "local",
            cold=cold,
        )

    def _find(self, stack: ExitStack, ground: DiagnosisTarget | None, line: ReleaseLine | None) -> None:
        """The stage on the user's own build, the releases, and the smallest script, as far as asked for."""
        diagnosis = self._diagnose(ground) if ground is not None else None
        here: ReleaseSession | None = None
        own = line.same_build(ground.build.python) if line is not None and ground is not None else None
        if line is not None and ground is not None and own is not None:
            # The user's own build stands on the line: what it answered here is its answer there.
            line.sessions.home[own] = ground.probe.environment
        if line is not None and (diagnosis is None or self._passes()):
            line.own_passes = public_version(ground.build.torch) if ground is not None else ""
            sought = line.seek()
            if sought.version is not None:
                here = line.sessions.open(sought.version, home=True)
                stack.callback(line.sessions.shut, here)
                ground = on_bench(here)
                before = self.findings
                diagnosis = self._diagnose(ground)
                self._also(before)
        if diagnosis is None:
            self.findings = nothing_fails(self.request.program, line)
            return
        found, base = diagnosis.findings, diagnosis.baseline
        assert ground is not None
        elsewhere: Elsewhere | None = None
        if line is not None and base is not None and base.target is not None and worth_following(found):
            lines_own = here.version if here is not None else own
            reference = lines_own or public_version(ground.build.torch)
            line.follow(base, found, self.request.options, reference=reference, here=lines_own)
            elsewhere = self._elsewhere(stack, line, reference)
        if line is not None and line.found is not None:
            found.versions = line.found.to_json()
        keep_kernel_script(found, self.folder)
        wanted = self.request.minimize_s > 0 and found.verdict == "fails"
        if wanted:
            self._minimize(ground, diagnosis, elsewhere)
        if self._collect and found.verdict != "passes" and not (self.folder / COLLECTED).exists():
            told = ground.prober.collect_environment()
            write_atomic(self.folder / COLLECTED, json.dumps(told, indent=1))

    def _measure(self, line: ReleaseLine, metric: str, worse_by: float) -> None:
        """A number instead of a failure: there is no stage to be found, only releases."""
        self.findings = Findings(program=self.request.program)
        axis = line.measure(metric, worse_by)
        judged = any(row.verdict is not Verdict.SKIP for row in axis.versions.tested)
        self.findings.verdict = "fails" if axis.worse else "passes" if judged else "inconclusive"

    def _passes(self) -> bool:
        return self.findings is not None and self.findings.verdict == "passes"

    def _diagnose(self, ground: DiagnosisTarget) -> Bisection:
        diagnosis = search_for(self.request, ground)
        self.findings, self._ground = diagnosis.findings, ground
        keep_ground(ground, self.folder)
        diagnosis.run()
        return diagnosis

    def _also(self, before: Findings | None) -> None:
        """Say that the user's own build passes, where another release was found to fail."""
        if before is None or self.findings is None:
            return
        torch = next((step.outcome.torch for step in before.baseline if step.outcome.torch), "")
        self.findings.warnings.insert(
            0,
            f"the script does not fail on your own build ({torch or 'unknown'}): "
            "all that follows is about the newest release that was seen to fail",
        )

    def _elsewhere(self, stack: ExitStack, line: ReleaseLine, bad: str | None) -> Elsewhere | None:
        good = line.good(bad) if self.request.minimize_s > 0 else None
        if good is None:
            return None
        stack.callback(line.sessions.shut, good)
        return Elsewhere(name=f"torch {good.version}", lab=good.lab, probe=good.probe)

    def _setting(self, cold: str) -> Setting:
        """What every release of the line is asked with."""
        request = self.request
        return Setting(
            program=request.program,
            folder=self.folder,
            limits=request.limits,
            oracle=request.oracle,
            stdin=request.stdin,
            cold=cold,
            workers=request.workers,
            keep=request.keep,
            listener=self._listener,
        )

    def _minimize(self, ground: DiagnosisTarget, diagnosis: Bisection, elsewhere: Elsewhere | None) -> None:
        """Shrink the script and the graph; a run that is stopped keeps the smallest program so far."""
        found, base = diagnosis.findings, diagnosis.baseline
        assert base is not None
        minimizer = Minimizer(
            lab=ground.lab,
            probe=ground.probe,
            base=base,
            findings=found,
            folder=self.folder,
            seconds=self.request.minimize_s,
            build=ground.build.torch,
            elsewhere=elsewhere,
            pair=diagnosis.pair,
            backend=binding_of(self.request.accelerator, ground.build.facts, found),
            workers=self.request.workers,
            listener=self._reducing,
            package=self.request.package,
            stdin=self.request.stdin.name if self.request.stdin is not None else "",
        )
        try:
            found.repro = minimizer.run().to_json()
        except Interrupted:
            found.repro = interrupted(self.folder)
            raise

    def _describe(self, line: ReleaseLine | None, started: float) -> None:
        found, ground = self.findings, self._ground
        if found is None:
            return
        if ground is not None:
            found.environment = {
                **found.environment,  # what the search recorded of an accelerator
                "provider": ground.provider,
                **ground.build.facts,
                "warm": not ground.cold and ground.prober.is_warm,
                "cold_because": ground.cold or None,
                **_collected(self.folder),
            }
            if name := self.request.accelerator:
                steering = variables_of(name, ground.build.facts, found)
                found.environment["accelerator"] = {"name": name, "variables": steering}
            found.seconds_probes = ground.prober.seconds
        if line is not None:
            found.versions = line.found.to_json() if line.found is not None else None
            found.warnings += [note for note in line.notes if note not in found.warnings]
            found.probes["releases"] = line.sessions.asked
            found.seconds_probes += line.sessions.seconds
        found.warnings += said_of(self.request.program)
        runs = [step.outcome for step in found.baseline]
        if not any("other_entries" in run.facts for run in runs):  # else the run itself has told
            found.warnings += not_covered(self.request.program)
        notes = {note for run in runs for note in run.notes if not found.outside or not about_entries(note)}
        found.warnings += sorted(note for note in notes if note not in found.warnings)
        found.artifacts = str(self.folder)
        found.seconds_total = time.monotonic() - started


def _collected(folder: Path) -> dict[str, str]:
    """What the run was told of its environment; empty where it did not ask."""
    try:
        told = json.loads((folder / COLLECTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    facts = told if isinstance(told, dict) else {}
    names = {"cxx": "cxx", "text": "collect_env"}
    return {names[key]: str(facts[key]) for key in names if facts.get(key)}


def worth_following(findings: Findings) -> bool:
    """Whether another release could tell anything: not where the machine itself is at fault."""
    return findings.culprit is None or findings.culprit.stage is not Stage.ENVIRONMENT


def nothing_fails(program: Program, line: ReleaseLine | None) -> Findings:
    """The findings where no build was found on which the script fails."""
    rows = line.sought.tested if line is not None and line.sought is not None else ()
    passing = any(row.verdict is Verdict.GOOD for row in rows)
    found = Findings(program=program, verdict="passes" if passing else "inconclusive")
    if not passing:
        found.warnings.append(
            "none of the releases that were tried could be judged: "
            + "; ".join(f"torch {row.torch}: {row.why}" for row in rows[:3])
        )
    return found


def bisect_script(
    script: str | Path,
    args: tuple[str, ...] = (),
    *,
    python: str = sys.executable,
    out: str | Path | None = None,
    timeout_s: float = 300.0,
) -> Findings:
    """Find the stage at which ``script`` fails under ``torch.compile``; the Python form of the command.

    ``timeout_s`` is for one run, in seconds. Nothing is printed; the run's folder is
    ``Findings.artifacts``. Raises :class:`UsageError` for a script that cannot be one and
    :class:`LabError` where the lab cannot do it, for instance without torch in ``python``.
    """
    request = Request(
        program=read_program(str(script), None, args),
        python=python,
        out=Path(out) if out is not None else None,
        limits=Limits(timeout_s=timeout_s),
    )
    return Session(*opened(request)).run()


def keep_kernel_script(findings: Findings, folder: Path) -> None:
    """Copy the script of a captured kernel, which its probe left behind, beside the report."""
    for place, culprit in enumerate(findings.culprits):
        for number, exhibit in enumerate(culprit.exhibits):
            if exhibit.kind != "kernel_script":
                continue
            left = Path(os.path.realpath(exhibit.text))
            if Path(os.path.realpath(folder)) not in left.parents:
                continue  # a run's folder may come from somebody else: nothing outside it is read
            try:
                text = ChildFiles(left.parent).text(left.name)
            except Refused:
                continue
            if text is None:
                continue
            write_atomic(folder / "kernel.py", text)
            shown = replace(exhibit, text=command_line("python", folder / "kernel.py") + "\n")
            exhibits = (*culprit.exhibits[:number], shown, *culprit.exhibits[number + 1 :])
            findings.culprits[place] = replace(culprit, exhibits=exhibits)

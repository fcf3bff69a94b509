"""Joins the search for workarounds to real runs: the user's script with a few lines changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from accel_lab.core.errors import LabError, Unanswered
from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Program
from accel_lab.core.stages import Stage
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.execution.prober import Interrupted
from accel_lab.search.bisection import Bisection
from accel_lab.search.workarounds.candidates import candidates
from accel_lab.search.workarounds.releases import of_releases
from accel_lab.search.workarounds.script_edits import paste
from accel_lab.search.workarounds.trials import RegionSeconds, Trials
from accel_lab.versions.diagnosis_target import DiagnosisTarget

#: Without a time of its own the search takes this share of what the bisection took, in seconds at least ...
SHARE, LEAST_S = 0.45, 20.0
#: A longer script is not changed.
_MOST_BYTES = 1 << 20
_TAIL = 2_000
#: What ``child/region_clock.py`` begins its line with.
_MARK = "accel-lab-region-seconds "


def add_workarounds(
    findings: Findings,
    diagnosis: Bisection,
    target: DiagnosisTarget,
    *,
    budget_s: float,
    listener: Callable[[str], None] = lambda words: None,
) -> None:
    """Fill in ``findings.workarounds``. Only what was run is added; an error of a run ends the search."""
    findings.workarounds = [*of_releases(findings)]
    path, base = changed_file(findings.program), diagnosis.baseline
    if path is None or base is None or base.target is None or not _can_be_avoided(findings) or budget_s <= 0:
        return
    source = _text(path)
    if source is None:
        return
    workspace = target.prober.workspace
    clock = workspace.library / "region_clock.py"

    def clocked(text: str) -> str | None:
        lines = ["import runpy as _runpy", f'_runpy.run_path({str(clock)!r})["start"](torch)']
        edited = paste(text, lines)
        return edited.text if edited is not None else None

    trials = Trials(
        lab=target.lab,
        probe=target.probe,
        baseline=base,
        path=str(path),
        source=source,
        keep=lambda text: str(workspace.keep_text(text)),
        clock=clocked,
        seconds_of=_region_seconds,
        budget_s=budget_s,
        listener=listener,
        counts=findings.probes,
    )
    try:
        findings.workarounds += trials.run(candidates(findings, source))
    except Interrupted:
        raise
    except (LabError, Unanswered):
        return


def _can_be_avoided(findings: Findings) -> bool:
    culprit = findings.culprit
    return (
        findings.verdict == "fails"
        and culprit is not None
        and culprit.stage not in (Stage.EAGER, Stage.ENVIRONMENT)
    )


def changed_file(program: Program) -> Path | None:
    """The file that a user would change: the script, or the test file that a module is given."""
    if program.path is not None:
        names = [program.path]
    else:
        names = [word.split("::", 1)[0] for word in program.args if not word.startswith("-")]
    for name in names:
        path = Path(name)
        if path.suffix == ".py" and path.is_file():
            return path.resolve()
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else None
    except (OSError, ValueError):
        return None


def _region_seconds(outcome: Outcome) -> RegionSeconds | None:
    """What the clock printed last; None for anything else that a script may print."""
    if outcome.failed or not outcome.folder:
        return None
    try:
        tail = ChildFiles(outcome.folder).tail("stderr.txt", _TAIL) or ""
    except Refused:
        return None
    lines = [line for line in tail.splitlines() if line.startswith(_MARK)]
    try:
        said = json.loads(lines[-1].removeprefix(_MARK)) if lines else {}
        compiled, plain, runs = float(said["compiled"]), float(said["plain"]), int(said["runs"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if not (0 < compiled < 1e6 and 0 < plain < 1e6 and 0 < runs < 10_000):
        return None
    return RegionSeconds(compiled=compiled, plain=plain, runs=runs)

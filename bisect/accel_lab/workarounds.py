"""Tests workarounds: runs the user's script with a few lines changed."""

from __future__ import annotations

import json
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.findings import Findings
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Program
from accel_lab.core.stages import Stage
from accel_lab.core.time_budget import SpendingTracker
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.execution.builds import public_version
from accel_lab.search.bisection import Bisection
from accel_lab.search.change.backport import NAME, backport_text
from accel_lab.search.workarounds.candidates import Candidate, candidates
from accel_lab.search.workarounds.known import KnownSearch, catalogue
from accel_lab.search.workarounds.releases import of_releases
from accel_lab.search.workarounds.script_edits import paste, paste_above
from accel_lab.search.workarounds.trials import RegionSeconds, Trials
from accel_lab.versions.diagnosis_target import DiagnosisTarget

#: Default time for workarounds: this share of the bisection's time, but at least so many seconds.
SHARE, LEAST_S = 0.45, 20.0
#: Longer scripts are not edited.
_MOST_BYTES = 1 << 20
_TAIL = 2_000
#: Prefix of the line that ``child/region_clock.py`` prints.
_MARK = "accel-lab-region-seconds "


def add_workarounds(
    findings: Findings,
    diagnosis: Bisection,
    target: DiagnosisTarget,
    *,
    budget_s: float,
) -> None:
    """Fills in ``findings.workarounds`` and ``findings.known``.

    An edit is added only after it ran. A :class:`LabError` ends the search quietly, an interruption is
    raised.
    """
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
        probe=diagnosis.probe,
        baseline=base,
        path=str(path),
        source=source,
        keep=lambda text: str(workspace.keep_text(text)),
        clock=clocked,
        seconds_of=region_seconds,
        spending=SpendingTracker(budget_s=budget_s),
        counts=findings.probes,
    )
    first = backports(findings, source, public_version(target.build.torch), workspace.root)
    try:
        findings.workarounds += trials.run([*first, *candidates(findings, source)])
        known = KnownSearch(
            lab=target.lab,
            probe=diagnosis.probe,
            keep=trials.keep,
            spending=SpendingTracker(budget_s=max(trials.spending.left_s, 0.0)),
            counts=findings.probes,
        )
        findings.known = known.run(findings, catalogue())
    except Interrupted:
        raise
    except LabError:
        return


def backports(findings: Findings, source: str, release: str, folder: Path) -> list[Candidate]:
    """Returns the piece of a later release that fixes the failure on ``release``, written to
    ``folder``/backport.

    Empty if no later release has the fix, or if the piece was not proven in both directions.
    """
    flips = findings.versions.flips if findings.versions is not None else ()
    flip = next((one for one in flips if one.kind == "fixed" and one.after == release and one.change), None)
    if flip is None or flip.change is None or flip.change.both_ways is not True:
        return []
    text = backport_text(flip.change, release=release, fixed=flip.at)
    symbols = ", ".join(piece.symbol for piece in flip.change.pieces)
    place = folder / "backport"
    edited = paste_above(source, ["import sys", f"sys.path.insert(0, {str(place)!r})", f"import {NAME}"])
    if not text or edited is None:
        return []
    place.mkdir(exist_ok=True)
    write_atomic(place / f"{NAME}.py", text)
    words = f"torch {release} uses {symbols} from torch {flip.at}"
    return [Candidate(kind="backport", edited=edited, where="top", words=words, width=0)]


def _can_be_avoided(findings: Findings) -> bool:
    culprit = findings.culprit
    return (
        findings.verdict == "fails"
        and culprit is not None
        and culprit.stage not in (Stage.EAGER, Stage.ENVIRONMENT)
    )


def changed_file(program: Program) -> Path | None:
    """Returns the file that workarounds edit: the script, or a module's test file; None if there is none."""
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


def region_seconds(outcome: Outcome) -> RegionSeconds | None:
    """Parses the last line of the region clock in stderr; None if it is missing, malformed or implausible."""
    if outcome.failed or not outcome.folder:
        return None
    try:
        tail = ChildFiles(outcome.folder).tail("stderr.txt", _TAIL) or ""
    except UntrustedFileError:
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

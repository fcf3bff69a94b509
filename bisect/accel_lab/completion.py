"""Completes the findings of a run: environment, counts, warnings, files next to the report."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

from accel_lab import __version__
from accel_lab.core.accelerator_record import KEY
from accel_lab.core.findings import Findings
from accel_lab.core.machine.files import remove, write_atomic
from accel_lab.core.probe import Program
from accel_lab.core.text import command_line
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.core.verdict import Verdict
from accel_lab.execution.notebooks import notebook_warnings
from accel_lab.execution.programs import not_covered
from accel_lab.minimize.accelerator_binding import variables_of
from accel_lab.search.alternatives.outside_ladder import about_entries
from accel_lab.versions.diagnosis_target import DiagnosisTarget
from accel_lab.versions.line import ReleaseLine

#: File in the run's folder with the output of torch's ``collect_env``.
COLLECTED = "collect_env.json"
#: Subfolder for the files of an accelerator run, and the most files and bytes that are copied to it.
ACCELERATOR = "accelerator"
_MOST_FILES, _MOST_BYTES = 1_000, 32 * 1024 * 1024


def describe(
    findings: Findings,
    folder: Path,
    target: DiagnosisTarget | None,
    line: ReleaseLine | None,
    accelerator: str,
) -> None:
    """Fills in the environment, the probe counts, the warnings and the run folder of ``findings``.

    ``accelerator`` is the name of the accelerator that was bisected, or empty.
    """
    if target is not None:
        findings.environment = {
            **findings.environment,  # what the search recorded about an accelerator
            "provider": target.provider,
            **target.build.facts,
            "warm": not target.cold and target.prober.is_warm,
            "cold_because": target.cold or None,
            **_collected(folder),
        }
        if accelerator:
            variables = variables_of(accelerator, target.build.facts, findings)
            recorded = findings.environment.get("accelerator") or {}
            findings.environment["accelerator"] = {**recorded, "name": accelerator, "variables": variables}
        findings.seconds_probes = target.prober.seconds
    if line is not None:
        findings.versions = line.versions
        findings.warnings += [note for note in line.notes if note not in findings.warnings]
        findings.probes["releases"] = line.sessions.asked
        findings.seconds_probes += line.sessions.seconds
    findings.warnings += notebook_warnings(findings.program)
    runs = [step.outcome for step in findings.baseline]
    if not any("other_entries" in run.facts for run in runs):  # the run's own notes on them are more precise
        findings.warnings += not_covered(findings.program)
    notes = {note for run in runs for note in run.notes if not findings.outside or not about_entries(note)}
    findings.warnings += sorted(note for note in notes if note not in findings.warnings)
    if target is not None and findings.ladder:
        findings.warnings += _cost_of_cold_runs(findings, target)
    findings.artifacts = str(folder)


def _cost_of_cold_runs(findings: Findings, target: DiagnosisTarget) -> list[str]:
    """Returns a warning with the reason for fresh processes and their cost; empty if the warm server ran."""
    if target.prober.is_warm:
        return []
    seconds = [step.outcome.seconds for step in findings.ladder]
    why = target.cold or "the warm server does not show the failure"
    return [
        f"every run was made in a fresh process ({why}): a rung of the ladder took "
        f"{sum(seconds) / len(seconds):.0f} s, {sum(seconds):.0f} s for all {len(seconds)}; in the warm "
        "server a run saves the import of torch and of the compiler"
    ]


def _collected(folder: Path) -> dict[str, str]:
    """Reads what ``collect_env`` recorded for the run; empty if there is no record."""
    try:
        facts = json.loads((folder / COLLECTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    names = {"cxx": "cxx", "text": "collect_env"}
    return {names[key]: str(facts[key]) for key in names if isinstance(facts, dict) and facts.get(key)}


def note_own_build(own: Findings, findings: Findings) -> None:
    """Inserts a first warning: the user's own build passes, so another release was bisected."""
    torch = next((step.outcome.torch for step in own.baseline if step.outcome.torch), "")
    findings.warnings.insert(
        0,
        f"the script does not fail on your own build ({torch or 'unknown'}): "
        "the rest of this report is about the newest failing release",
    )


def nothing_fails(program: Program, line: ReleaseLine) -> Findings:
    """Returns the findings for a script that fails on no release.

    The verdict is ``passes`` if a release passed, else ``inconclusive``.
    """
    rows = line.tried.tested if line.tried is not None else ()
    passing = any(row.verdict is Verdict.GOOD for row in rows)
    findings = Findings(program=program, verdict="passes" if passing else "inconclusive")
    if not passing:
        findings.warnings.append(
            "none of the releases that were tried could be judged: "
            + "; ".join(f"torch {row.torch}: {row.why}" for row in rows[:3])
        )
    return findings


def keep_kernel_script(findings: Findings, folder: Path) -> None:
    """Copies the standalone script of a captured kernel from its probe's folder to ``kernel.py``."""
    for place, culprit in enumerate(findings.culprits):
        for number, exhibit in enumerate(culprit.exhibits):
            if exhibit.kind != "kernel_script":
                continue
            left = Path(os.path.realpath(exhibit.text))
            if Path(os.path.realpath(folder)) not in left.parents:
                continue  # a run's folder may come from a stranger: read nothing outside it
            try:
                text = ChildFiles(left.parent).text(left.name)
            except UntrustedFileError:
                continue
            if text is None:
                continue
            write_atomic(folder / "kernel.py", text)
            shown = replace(exhibit, text=command_line("python", folder / "kernel.py") + "\n")
            exhibits = (*culprit.exhibits[:number], shown, *culprit.exhibits[number + 1 :])
            findings.culprits[place] = replace(culprit, exhibits=exhibits)


def keep_accelerator_files(findings: Findings, folder: Path) -> None:
    """Copies the transfers, plans and specs of an accelerator run into the run's folder, with the versions.

    An adapter wrote these texts in the probed process, so everything but small regular files is skipped.
    """
    record = findings.environment.get(KEY)
    if not isinstance(record, dict) or "files" not in record:
        return
    place = folder / ACCELERATOR
    remove(place)
    place.mkdir()
    left = Path(os.path.realpath(record.pop("files") or os.devnull), "artifacts", "accelerator")
    if Path(os.path.realpath(folder)) in left.parents and left.is_dir():
        _copy_texts(left, place)
    kernel = folder / "kernel.py"
    if kernel.is_file() and any(
        one.kind == "kernel_script" for culprit in findings.culprits for one in culprit.exhibits
    ):
        write_atomic(place / kernel.name, kernel.read_bytes())
    torch = next((step.outcome.torch for step in findings.baseline if step.outcome.torch), "")
    versions = {"accel_lab": __version__, "torch": torch, KEY: record}
    write_atomic(place / "versions.json", json.dumps(versions, indent=1) + "\n")


def _copy_texts(left: Path, place: Path) -> None:
    files, room = ChildFiles(left), _MOST_BYTES
    for count, path in enumerate(sorted(left.rglob("*"))):
        name = path.relative_to(left).as_posix()
        if count >= _MOST_FILES or room <= 0:
            return
        try:
            text = files.text(name, room) if path.is_file() and not path.is_symlink() else None
        except UntrustedFileError:
            continue
        if text is None:
            continue
        room -= len(text)
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, text)

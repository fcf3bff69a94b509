"""Runs a bundle again before it is handed out: from a clean folder, in a clean environment, once.

The one place in which a bundle that this run made is run: the program in it has just been run by the same
person, so nothing is asked. :func:`ship` writes what stands the test.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.child.view import FAILED
from accel_lab.core.ended import Ended
from accel_lab.core.files import write_atomic
from accel_lab.core.findings import Findings
from accel_lab.core.probe import Limits
from accel_lab.core.record import Record, as_json
from accel_lab.execution.processes import process
from accel_lab.execution.run_folder.surroundings import enter_command
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.reporting import repro_reader
from accel_lab.reporting.bundle.limits import LIMIT_BYTES
from accel_lab.reporting.bundle.project import is_broad, look
from accel_lab.reporting.bundle.project_copy import keep_project, project_of
from accel_lab.reporting.bundle.sources import ORIGINAL
from accel_lab.reporting.bundle.verify import extract_bundle, rerun_command
from accel_lab.reporting.bundle.writer import BundleReport, Choice, write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.words.summary import next_steps, summarise

MATCH, MISMATCH, NOT_RUN = "match", "mismatch", "not_run"
#: So many tries of a failure that comes now and then, and the seconds that a hang is waited for.
MOST_TRIES, PATIENCE_S = 7, 30.0
_MOST_S = 1_800.0
#: What a clean environment keeps: where programs and the user's own packages are found.
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT")
_RECORD = "bundle-check.json"


@dataclass(frozen=True, kw_only=True)
class Rehearsal(Record):
    """What came of running a bundle again: ``result`` is one of the three above, ``words`` say it.

    ``seconds`` is what it cost; it stands in no bundle, since the same files make the same bundle.
    """

    result: str
    words: str
    seconds: float = field(default=0.0, metadata=as_json(digits=1))
    digest: str = field(default="", metadata=as_json(hidden=True))


def ship(
    findings: Findings,
    folder: Path,
    path: Path,
    *,
    verify: bool,
    fresh: bool = False,
    limit_bytes: int = LIMIT_BYTES,
    words: Sequence[str] = (),
) -> tuple[BundleReport, Rehearsal]:
    """Write the bundle of a run to ``path``: the first way of packing it that fails as recorded.

    The smallest repro is tried, then the program with what it opened, then with all of its folder. A repro
    that does not fail as recorded is no repro: it is taken out of ``findings``, which say so. Where nothing
    fails so, the program is shipped and the words say what came of it. Without ``verify`` nothing is run, and
    an earlier word on the same files still holds. ``words`` are taken out of every text as well. ``fresh``:
    the run has just been made, so the program's files are taken from where they lie; else from the copy in
    the run's folder.
    """

    def written(target: Path, choice: Choice, checked: str) -> BundleReport:
        redactor = Redactor.for_this_machine(words)
        options: dict[str, Any] = {"limit_bytes": limit_bytes, "choice": choice, "checked": checked}
        return write_bundle(findings, folder, target, redactor=redactor, **options)

    why_not = _why_not(findings) if verify else "you did not ask for it"
    if fresh:
        keep_project(findings, folder)
    before = (folder / _RECORD).exists()
    first: tuple[Choice, Rehearsal] | None = None
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
        draft = Path(name) / path.name
        for choice in _choices(findings, folder, fresh=fresh):
            made = written(draft, choice, "")
            if why_not:
                unasked = Rehearsal(result=NOT_RUN, words=f"not run again: {why_not}")
                told = _earlier(folder, made.digest) or unasked
            else:
                told = rehearse(made, findings, folder)
            if told.result == MISMATCH and made.reduced:
                _take_out(findings, folder, told)
                continue
            first = first or (choice, told)
            if told.result == MATCH:
                first = (choice, told)
            # Where nothing is run, another way of packing it may be the one that was run before.
            if told.result == MATCH or (told.result == NOT_RUN and not (why_not and before)):
                break
    assert first is not None
    choice, told = first
    made = written(path, choice, told.words)
    if told.result != NOT_RUN:
        write_atomic(folder / _RECORD, json.dumps({**told.to_json(), "digest": told.digest}, indent=1))
    return made, told


def _choices(findings: Findings, folder: Path, *, fresh: bool) -> Iterator[Choice]:
    """The ways of packing it that differ, the smallest first; what was taken out is not asked again."""
    for _ in range(2):
        scripts = (repro_reader.repro_of(findings, folder), repro_reader.other_of(findings, folder))
        if any(script is not None and script.verified and script.text.strip() for script in scripts):
            yield Choice()
    yield Choice(smallest=False)
    opened = len(project_of(findings, folder).members)
    if fresh and len(look(findings, folder, whole=True).members) > opened:
        keep_project(findings, folder, whole=True)
    if len(project_of(findings, folder, whole=True).members) > opened:
        yield Choice(smallest=False, whole=True)


def _take_out(findings: Findings, folder: Path, told: Rehearsal) -> None:
    """Take the repro that did not fail as recorded out of the findings, and out of what they say."""
    scripts = (repro_reader.repro_of(findings, folder), repro_reader.other_of(findings, folder))
    gone = next(one for one in scripts if one is not None and one.verified and one.text.strip())
    why = f"the reduced {gone.kind or 'script'} is not offered: {told.words}"
    assert findings.repro is not None
    findings.repro = repro_reader.without(findings.repro, gone.kind, why)
    findings.summary, findings.next_steps = summarise(findings), next_steps(findings)


def _why_not(findings: Findings) -> str:
    """Why there is nothing to run again, or nothing to run it with; empty where there is."""
    if findings.verdict == "passes":
        return "nothing fails"
    if findings.environment.get("provider") == "docker":
        return "it was recorded in a container"
    if not _python(findings):
        return "the interpreter that ran it is gone"
    return ""


def _python(findings: Findings) -> str:
    named = str(findings.environment.get("executable") or "")
    return named if os.access(named, os.X_OK) and os.path.isfile(named) else ""


def _earlier(folder: Path, digest: str) -> Rehearsal | None:
    """What came of running the very same files, in this run's folder."""
    try:
        data = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        if data["digest"] == digest and data["result"] in (MATCH, MISMATCH):
            return Rehearsal(result=data["result"], words=str(data["words"])[:2000], digest=digest)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def rehearse(made: BundleReport, findings: Findings, run_dir: Path) -> Rehearsal:
    """Unpack the bundle into a new folder and run it there, with nothing of the caller's environment.

    Where mounts are allowed, the project's own folder is out of sight: what only lies there is missed.
    """
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
        place = Path(name)
        folder = place / "bundle"
        extract_bundle(made.path, folder)
        for missing, path in made.missing:
            target = folder / missing
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(path)
        expected = _hurried(folder / "expected.json")
        ended = _run(place, folder, findings, run_dir, hide=not made.missing)
        said = "".join((place / one).read_text(errors="replace") for one in ("out.txt", "err.txt"))
    result = {0: MATCH, 1: MISMATCH}.get(-1 if ended.exit_code is None else ended.exit_code, NOT_RUN)
    words = _words(result, said, ended, findings, expected, made)
    return Rehearsal(result=result, words=words, seconds=ended.seconds, digest=made.digest)


def _hurried(path: Path) -> dict[str, Any]:
    """What is expected, with less patience than a stranger's machine may need."""
    expected: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    changed = {"attempts": min(expected["attempts"], MOST_TRIES)}
    if expected["status"] == "timeout":
        changed["timeout_s"] = min(expected["timeout_s"], PATIENCE_S)
    path.write_text(json.dumps({**expected, **changed}), encoding="utf-8")
    return expected


def _run(place: Path, folder: Path, findings: Findings, run_dir: Path, *, hide: bool) -> Ended:
    python = _python(findings)
    env = {key: os.environ[key] for key in _KEPT if key in os.environ}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    library = Workspace(place / "lab", folder).library
    sources = [folder / "repro.py", *(folder / ORIGINAL).rglob("*.py")]
    if any("accel_lab" in path.read_text(encoding="utf-8", errors="replace") for path in sources):
        env["PYTHONPATH"] = str(library.parent)  # a program that asks for an accelerator of the lab's
    work = place / "work"
    work.mkdir()
    command = rerun_command(folder, python)
    hidden = _hidden(findings, run_dir, python) if hide and sys.platform.startswith("linux") else []
    if hidden:
        plan = {
            "folders": [],
            "hidden": [str(one) for one in hidden],
            "real": [str(place), str(Path(python).parent.parent)],
            "upper": str(work),
            "memory": False,
            "cwd": str(work),
            "crash": str(place / "crash.txt"),
        }
        (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        ended = _started(enter_command(library, place / "plan.json", command), place, work, env)
        if ended.exit_code != FAILED or not (place / "crash.txt").exists():
            return ended
    return _started(command, place, work, env)


def _started(command: Sequence[str], place: Path, work: Path, env: dict[str, str]) -> Ended:
    return process.run(
        command,
        cwd=work,
        env=env,
        stdout=place / "out.txt",
        stderr=place / "err.txt",
        limits=Limits(timeout_s=_MOST_S),
        marker=f"rehearse-{uuid.uuid4().hex}",
    )


def _hidden(findings: Findings, run_dir: Path, python: str) -> list[Path]:
    """The folders of the project: none that is nobody's, or in which the interpreter or this run lives."""
    path = findings.program.origin or findings.program.path
    project = project_of(findings, run_dir)
    folders = [Path(path).parent] if path is not None else []
    folders += [member.origin.parent for member in project.members if member.origin is not None]
    needed = [Path(python).resolve(), Path(tempfile.gettempdir()), Path(__file__).resolve()]
    found: list[Path] = []
    for folder in sorted({one.resolve() for one in folders}, key=lambda one: len(one.parts)):
        if is_broad(folder) or any(folder == one or folder in one.parents for one in needed):
            continue
        if not any(other == folder or other in folder.parents for other in found):
            found.append(folder)
    return found


def _words(
    result: str,
    said: str,
    ended: Ended,
    findings: Findings,
    expected: dict[str, Any],
    made: BundleReport,
) -> str:
    """What came of it in one sentence."""
    lines = [line for line in said.splitlines() if line.strip()]
    placed = ", ".join(name for name, _ in made.missing)
    more = f", with {placed} put in place" if placed else ""
    if result == NOT_RUN:
        return f"could not be run again: {lines[-1][:300] if lines else ended.limit or 'it said nothing'}"
    tries = sum(line.startswith("running ") for line in lines)
    rate = findings.failure_rate
    flaky = rate is not None and rate < 1
    if result == MISMATCH:
        place = next((n for n, line in enumerate(lines) if line.startswith("MISMATCH: ")), len(lines))
        got = " ".join(" ".join(lines[place : place + 2]).partition(" It was recorded")[0][10:].split())
        if flaky and rate is not None:
            chance = (1 - rate) ** tries
            got = (
                f"none of {tries} tries failed; at its rate of {rate:.0%} that is so in {chance:.0%} of cases"
            )
        return f"run again from a clean folder: NOT the same failure ({got[:300]}{more})"
    how = "same failure"
    if findings.signature is None:
        how = "it ends well, as recorded"
    elif findings.verdict == "by_design":
        how = "it differs in the same way, by design"
    elif expected["status"] == "timeout":
        how = f"still running after {min(expected['timeout_s'], PATIENCE_S):.0f} s, as recorded"
    elif flaky:
        how = f"same failure in try {tries} (it fails in {rate:.0%} of its runs)"
    return f"run again from a clean folder: {how}{more}"


__all__ = ["MATCH", "MISMATCH", "NOT_RUN", "Rehearsal", "rehearse", "ship"]

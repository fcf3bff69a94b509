"""Verifies a bundle before it is handed out: runs it once from a clean folder in a clean environment.

:func:`verify_bundle`, which also runs a stranger's bundle, does it. No confirmation is needed, because the
same user has just run the program. :func:`write_checked_bundle` writes the bundle that passes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.findings import Findings
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.record import Record, as_json
from accel_lab.execution.run_folder.hidden_folders import HidingRunner
from accel_lab.execution.run_folder.workspace import Workspace
from accel_lab.reporting import repro_reader
from accel_lab.reporting.bundle.kinds_of_files import is_broad
from accel_lab.reporting.bundle.limits import LIMIT_BYTES
from accel_lab.reporting.bundle.project import look
from accel_lab.reporting.bundle.project_copy import keep_project, project_of
from accel_lab.reporting.bundle.run_again import Haste
from accel_lab.reporting.bundle.verify import Verified, verify_bundle
from accel_lab.reporting.bundle.writer import BundleReport, Choice, write_bundle
from accel_lab.reporting.redact.redactor import Redactor
from accel_lab.reporting.words.summary import next_steps, summarise

MATCH, MISMATCH, NOT_RUN = "match", "mismatch", "not_run"
#: Most tries of a flaky failure, and the seconds until a hang counts as reproduced.
MOST_TRIES, PATIENCE_S = 7, 30.0
_MOST_S = 1_800.0
#: Variables that a clean environment keeps: paths of programs, libraries and the user's own packages.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT", "PYTHONUSERBASE")
_RECORD = "bundle-check.json"


@dataclass(frozen=True, kw_only=True)
class BundleCheck(Record):
    """Result of running a bundle again: ``match``, ``mismatch`` or ``not_run``, and the sentence for it.

    ``seconds`` is the time it took. It is not part of the bundle, so that equal files give equal bundles.
    """

    result: str
    words: str
    seconds: float = field(default=0.0, metadata=as_json(digits=1))
    digest: str = field(default="", metadata=as_json(hidden=True))


def write_checked_bundle(
    findings: Findings,
    folder: Path,
    path: Path,
    *,
    verify: bool,
    fresh: bool = False,
    limit_bytes: int = LIMIT_BYTES,
    words: Sequence[str] = (),
) -> tuple[BundleReport, BundleCheck]:
    """Writes the bundle of a run to ``path``, packed in the first way that fails as recorded.

    It tries the smallest repro, then the program with the files that it opened, then with its whole folder. A
    repro that does not fail as recorded is removed from ``findings``, which say so. If nothing fails as
    recorded, the program is packed and the result says what happened.

    Without ``verify`` nothing is run, but an earlier result for the same files is kept. ``words`` are
    redacted from every text. ``fresh`` means that the run was just made: the program's files are then read in
    place, else from the copy in the run's folder.
    """

    def written(target: Path, choice: Choice, checked: str) -> BundleReport:
        redactor = Redactor.for_this_machine(words)
        options: dict[str, Any] = {"limit_bytes": limit_bytes, "choice": choice, "checked": checked}
        return write_bundle(findings, folder, target, redactor=redactor, **options)

    why_not = _why_not(findings) if verify else "you did not ask for it"
    if fresh:
        keep_project(findings, folder)
    before = (folder / _RECORD).exists()
    first: tuple[Choice, BundleCheck] | None = None
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
        draft = Path(name) / path.name
        for choice in _choices(findings, folder, fresh=fresh):
            made = written(draft, choice, "")
            if why_not:
                unasked = BundleCheck(result=NOT_RUN, words=f"not run again: {why_not}")
                result = _earlier(folder, made.digest) or unasked
            else:
                result = check_bundle_once(made, findings, folder)
            if result.result == MISMATCH and made.reduced:
                _take_out(findings, folder, result)
                continue
            first = first or (choice, result)
            if result.result == MATCH:
                first = (choice, result)
            # If nothing is run, a later choice may be the one with an earlier result.
            if result.result == MATCH or (result.result == NOT_RUN and not (why_not and before)):
                break
    assert first is not None
    choice, result = first
    made = written(path, choice, result.words)
    if result.result != NOT_RUN:
        write_atomic(folder / _RECORD, json.dumps({**result.to_json(), "digest": result.digest}, indent=1))
    return made, result


def _choices(findings: Findings, folder: Path, *, fresh: bool) -> Iterator[Choice]:
    """Yields the distinct ways of packing, the smallest first; a removed repro is not tried again."""
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


def _take_out(findings: Findings, folder: Path, result: BundleCheck) -> None:
    """Removes the repro that did not fail as recorded from the findings and their texts."""
    scripts = (repro_reader.repro_of(findings, folder), repro_reader.other_of(findings, folder))
    gone = next(one for one in scripts if one is not None and one.verified and one.text.strip())
    why = f"the reduced {gone.kind or 'script'} is not offered: {result.words}"
    assert findings.repro is not None
    findings.repro = repro_reader.without(findings.repro, gone.kind, why)
    findings.summary, findings.next_steps = summarise(findings), next_steps(findings)


def _why_not(findings: Findings) -> str:
    """Returns why the bundle cannot be run again, or an empty string."""
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


def _earlier(folder: Path, digest: str) -> BundleCheck | None:
    """Returns the kept result of running exactly these files, if there is one."""
    try:
        data = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        if data["digest"] == digest and data["result"] in (MATCH, MISMATCH):
            return BundleCheck(result=data["result"], words=str(data["words"])[:2000], digest=digest)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def check_bundle_once(made: BundleReport, findings: Findings, run_dir: Path) -> BundleCheck:
    """Verifies the bundle as its receiver does, with nothing of the caller's environment.

    If mounts are allowed, the project's own folder is hidden, so that a file missing in the bundle is
    noticed.
    """
    python = _python(findings)
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
        place = Path(name)
        library = Workspace(place / "lab", place).library
        (place / "work").mkdir()
        runner = HidingRunner(
            hidden=() if made.missing else tuple(_hidden(findings, run_dir, python)),
            real=(place, Path(python).parent.parent),
            library=library,
            scratch=place,
        )
        try:
            done = verify_bundle(
                made.path,
                confirmed=True,
                python=python,
                run=runner,
                timeout_s=_MOST_S,
                environment={key: os.environ[key] for key in _KEPT if key in os.environ},
                library=lambda: library.parent,
                folder=place / "work",
                missing=made.missing,
                haste=Haste(most_tries=MOST_TRIES, patience_s=PATIENCE_S),
            )
        except LabError as error:
            words = str(error).removeprefix("the bundle ")[:400]
            return BundleCheck(result=NOT_RUN, words=words, digest=made.digest)
    words = _words(done, findings, made)
    result = MATCH if done.matches else MISMATCH
    return BundleCheck(result=result, words=words, seconds=done.seconds, digest=made.digest)


def _hidden(findings: Findings, run_dir: Path, python: str) -> list[Path]:
    """Returns the project's folders to hide: not broad ones, nor those of the interpreter or the lab."""
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


def _words(done: Verified, findings: Findings, made: BundleReport) -> str:
    lines = [line for line in done.said.splitlines() if line.strip()]
    placed = ", ".join(name for name, _ in made.missing)
    more = f", with {placed} put in place" if placed else ""
    tries = sum(line.startswith("running ") for line in lines)
    rate = findings.failure_rate
    flaky = rate is not None and rate < 1
    if not done.matches:
        place = next((n for n, line in enumerate(lines) if line.startswith("MISMATCH: ")), len(lines))
        got = " ".join(" ".join(lines[place : place + 2]).partition(" It was recorded")[0][10:].split())
        if flaky and rate is not None:
            chance = (1 - rate) ** tries
            got = (
                f"0 of {tries} tries failed; at a failure rate of {rate:.0%} that happens by chance in "
                f"{chance:.0%}"
            )
        return f"run again from a clean folder: NOT the same failure ({got[:300]}{more})"
    how = "same failure"
    if findings.signature is None:
        how = "it completes, as recorded"
    elif findings.verdict == "by_design":
        how = "it differs in the same way, by design"
    elif made.hangs_s is not None:
        how = f"still running after {min(made.hangs_s, PATIENCE_S):.0f} s, as recorded"
    elif flaky:
        how = f"same failure in try {tries} (it fails in {rate:.0%} of its runs)"
    return f"run again from a clean folder: {how}{more}"

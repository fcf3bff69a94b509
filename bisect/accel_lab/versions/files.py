"""Compares the files of the failing stage between the two builds around a flip."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.outcome import Outcome
from accel_lab.core.releases.flip_details import ChangedFile, FileChanges, FileDiff
from accel_lab.core.stages import Stage
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError, parsed
from accel_lab.core.untrusted.shapes import Table
from accel_lab.execution.auxiliary import Interrupted, auxiliary_folder
from accel_lab.search import frames

from .release_session import ReleaseSession, folder_name

#: Maximum lines shown of a diff, and maximum files with a diff shown.
SHOWN_LINES = 240
SHOWN_FILES = 3
#: A shorter culprit name occurs in too many lines to be useful.
LEAST_WORD = 6
#: The schema of what the child prints.
_LIST = ({"error": str}, {"files": Table(str), "native": Table()})
#: Maximum files listed; the others are only counted.
LISTED = 60


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The files of one build: digests by path, the folder with their copies, and the native libraries."""

    files: dict[str, str]
    native: dict[str, Any]
    copies: Path


@dataclass(frozen=True, kw_only=True)
class Compared:
    """How the failing stage differs between the two builds around a flip.

    ``same``: none of its files differs, so the flip is suspect. ``native_same`` is None if the native
    libraries could not be compared.
    """

    stage: Stage
    count: int
    changed: tuple[ChangedFile, ...] = ()
    native_same: bool | None = None
    diffs: tuple[FileDiff, ...] = ()

    @property
    def same(self) -> bool:
        return not self.changed and self.native_same is not False

    @property
    def summary(self) -> str:
        """Summarises the comparison in one line."""
        if not self.changed:
            rest = {
                True: "and the native libraries are the same too: the flip is suspect",
                False: "but the native libraries differ",
                None: "so the flip is suspect, unless a native library changed",
            }[self.native_same]
            return f"none of the {self.count} files of {self.stage} differ between the two, {rest}"
        lines = sum(c.added + c.removed for c in self.changed)
        return f"{len(self.changed)} of the {self.count} files of {self.stage} differ, in {lines:,} lines"

    @property
    def row(self) -> FileChanges:
        """Returns the record for the findings, with at most ``LISTED`` files."""
        return FileChanges(
            stage=self.stage.value,
            files=self.count,
            same=self.same,
            native_same=self.native_same,
            said=self.summary,
            changed=self.changed[:LISTED],
            more=max(0, len(self.changed) - LISTED),
            diffs=self.diffs,
        )


def sources(session: ReleaseSession, prefixes: Sequence[str]) -> Sources:
    """Returns the files of the session's torch with these prefixes; raises :class:`LabError` on failure."""
    copies = _copies(session)
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir()
    said = session.prober.child_output(_task_name(session), ["files", str(copies), *prefixes])
    try:
        data = parsed(said, "the list of its files", _LIST)
    except UntrustedFileError as error:
        raise LabError(f"torch {session.version}: {error}") from None
    if "error" in data:
        raise LabError(f"torch {session.version}: {data['error']}")
    return Sources(files=data["files"], native=data["native"], copies=copies)


def _task_name(session: ReleaseSession) -> str:
    """Returns the name of the auxiliary task; two releases' sessions can share a folder, the run's own."""
    return f"torch_files-{folder_name(session.version)}"


def _copies(session: ReleaseSession) -> Path:
    return auxiliary_folder(session.folder, _task_name(session)) / "copies"


def compare(
    good: ReleaseSession, bad: ReleaseSession, stage: Stage, failure: Outcome | None, culprit: str = ""
) -> Compared | str:
    """Compares the failing stage of two builds; returns a string if the difference is unknown."""
    prefixes = frames.areas_of(stage)
    if not prefixes:
        return f"{stage} has no files of its own"
    try:
        one, two = sources(good, prefixes), sources(bad, prefixes)
        return _compare(one, two, stage, _files_of(failure), culprit)
    except Interrupted:
        raise
    except LabError as error:
        return str(error)
    finally:
        for session in (good, bad):
            shutil.rmtree(_copies(session), ignore_errors=True)


def _compare(
    good: Sources, bad: Sources, stage: Stage, in_traceback: Mapping[str, int], culprit: str
) -> Compared:
    word = culprit.rsplit(".", 1)[-1] if len(culprit) >= LEAST_WORD else ""
    changed, diffs = [], []
    for path in sorted({*good.files, *bad.files}):
        if good.files.get(path) == bad.files.get(path):
            continue
        lines = _diff(good, bad, path)
        added = sum(1 for line in lines if line.startswith("+") and not line.startswith("+++"))
        removed = sum(1 for line in lines if line.startswith("-") and not line.startswith("---"))
        how = "changed"
        if path not in good.files:
            how = "only in the failing build"
        elif path not in bad.files:
            how = "only in the passing build"
        names = bool(word) and any(word in line for line in lines if line[:1] in "+-")
        changed.append(
            ChangedFile(
                path=path, added=added, removed=removed, how=how, near=path in in_traceback, names=names
            )
        )
        if path in in_traceback or names:
            diffs.append((path, lines))
    far = len(in_traceback)
    changed.sort(key=lambda c: (not c.names, in_traceback.get(c.path, far), -(c.added + c.removed), c.path))
    order = {c.path: place for place, c in enumerate(changed)}
    diffs.sort(key=lambda pair: order[pair[0]])
    return Compared(
        stage=stage,
        count=len({*good.files, *bad.files}),
        changed=tuple(changed),
        native_same=good.native == bad.native if good.native and bad.native else None,
        diffs=tuple(FileDiff(path=path, text=_cut(lines)) for path, lines in diffs[:SHOWN_FILES]),
    )


def _diff(good: Sources, bad: Sources, path: str) -> list[str]:
    one, two = (_lines(build.copies, path) for build in (good, bad))
    return list(difflib.unified_diff(one, two, f"{path} (passes)", f"{path} (fails)", lineterm="", n=2))


def _lines(copies: Path, path: str) -> list[str]:
    try:
        return (ChildFiles(copies).text(path) or "").splitlines()
    except UntrustedFileError:
        return []


def _cut(lines: Sequence[str]) -> str:
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"... {len(lines) - SHOWN_LINES} more lines"]
    return "\n".join(lines)


def _files_of(failure: Outcome | None) -> dict[str, int]:
    """Returns the torch files in a failure's traceback, innermost first, each with its rank."""
    raised = failure.raised if failure is not None else None
    files = [frame.file for frame in reversed(raised.frames)] if raised is not None else []
    return {
        file: place for place, file in enumerate(dict.fromkeys(f for f in files if f.startswith("torch/")))
    }

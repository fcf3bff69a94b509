"""Reads what the reduction left: the repro's text, its sizes, its proof, its data files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from accel_lab.core.findings import Exhibit, Findings, ReducedScript, Repro
from accel_lab.core.text import command_line

from . import run_files

#: Folder of the passing neighbour, below that of the repro.
MIN_GOOD = "min-good"
_LIMIT = 2_000_000
_END = re.compile(r"(exit|signal) (-?\d+)\Z")


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """One reduced script. ``path`` is as the run wrote it; ``text`` is empty if the file is gone.

    ``kind`` is ``graph``, ``script`` or empty; ``end`` is how a plain run of it ended: ``("exit", 1)``.
    """

    path: str
    text: str
    kind: str = ""
    nodes: tuple[int, int] | None = None
    lines_before: int | None = None
    lines_after: int | None = None
    verified: bool = False
    minimal: bool = False
    proof: tuple[str, ...] = ()
    end: tuple[str, int] | None = None
    args: tuple[str, ...] = ()

    def command(self, path: str) -> str:
        """Returns the command that runs it at ``path``."""
        return command_line("python", path, *self.args)

    @property
    def sizes(self) -> str:
        """Says how much smaller it is; empty if unknown."""
        parts = []
        if self.lines_after is not None:
            before = f" (from {self.lines_before:,})" if self.lines_before is not None else ""
            parts.append(f"{_count(self.lines_after, 'line')}{before}")
        if self.nodes is not None:
            parts.append(f"{_count(self.nodes[1], 'graph node')} (from {self.nodes[0]:,})")
        return ", ".join(parts)

    @property
    def standing(self) -> str:
        """Says in one sentence how far it can be trusted."""
        if not self.verified:
            return "It was seen to fail while it was made; it was not run again in a fresh process."
        if self.minimal:
            return "It is 1-minimal: no single statement can be taken out of it without losing the failure."
        return "The time was over before every part was tried: it may still get smaller."

    @property
    def exits(self) -> str:
        """Says what running it shows, as in ``exits 1 while the bug is there``; empty if nothing."""
        if self.end is None or self.end == ("exit", 0):
            return ""
        how = f"exits {self.end[1]}" if self.end[0] == "exit" else f"dies by signal {self.end[1]}"
        return f"{how} while the bug is there"


def repro_of(findings: Findings, run_dir: Path | None = None) -> Reduced | None:
    """Returns the smallest reduced script, or None."""
    return _reduced(findings.repro.smallest if findings.repro else None, findings, run_dir)


def other_of(findings: Findings, run_dir: Path | None = None) -> Reduced | None:
    """Returns the second repro, of the other kind, or None."""
    return _reduced(findings.repro.other if findings.repro else None, findings, run_dir)


def without(repro: Repro, kind: str, why: str) -> Repro:
    """Returns the repro record without the script of one kind, with ``why`` as the reason."""
    other = repro.other
    left = replace(repro, other=None, notes=[*repro.notes, why])
    if repro.kind != kind:
        return left
    left.min_good, left.graph = None, None
    if other is None:
        left.script, left.verified, left.why_not = None, False, why
    else:
        left.offer(other)
        left.graph = other.script if other.kind == "graph" else None
    return left


def min_good_of(findings: Findings, run_dir: Path | None = None) -> tuple[str, str] | None:
    """Returns path and text of the nearest script that passes, or None."""
    said = findings.repro.min_good if findings.repro else None
    if not said:
        return None
    text = read(said, run_dir)
    return (said, text) if text else None


def exhibits_of(findings: Findings) -> list[Exhibit]:
    """Returns the exhibits of the repro."""
    rows = findings.repro.exhibits if findings.repro else ()
    return [exhibit for exhibit in rows if exhibit.text or exhibit.rows]


def why_not(findings: Findings) -> str:
    """Says why there is no repro; empty if there is one or none was searched for."""
    return findings.repro.why_not if findings.repro else ""


def notes_of(findings: Findings) -> list[str]:
    """Returns the notes of the reduction."""
    return findings.repro.notes if findings.repro else []


def read(said: str, run_dir: Path | None) -> str:
    """Returns the text of a script by the path that the run wrote, even if the run's folder was moved."""
    for place in [*_places(said, run_dir), *([run_dir / Path(said).name] if run_dir is not None else [])]:
        text = run_files.read_text(place, _LIMIT).text
        if text:
            return text
    return ""


def _places(said: str, run_dir: Path | None) -> list[Path]:
    """Returns possible paths of a script; none outside the run's folder, which may be a stranger's."""
    if run_dir is None:
        return [Path(said)]
    places = (Path(said), run_dir / said, run_dir / short_name(said))
    return [place for place in places if run_files.is_inside(place, run_dir)]


def folder_of(said: str, run_dir: Path | None) -> Path | None:
    """Returns the folder that contains the script of that path now, or None."""
    places = _places(said, run_dir)
    try:
        return next((place.parent for place in places if place.is_file() and not place.is_symlink()), None)
    except OSError:  # a name too long for the file system: there is no such file
        return None


def data_files(said: str, run_dir: Path | None) -> list[tuple[str, Path]]:
    """Returns name and path of a reduced script's other files: its inputs, and the user's modules.

    Only folders of finished repros are searched: files next to another script are not its data.
    """
    folder = folder_of(said, run_dir)
    if folder is None:
        return []
    whose = folder.parent if folder.name == MIN_GOOD else folder
    if whose.name not in ("graph", "script") or whose.parent.name != "repro":
        return []
    found = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        skip = {MIN_GOOD, "__pycache__"} & set(name.parts) or name.as_posix() == Path(said).name
        linked = any((folder / part).is_symlink() for part in (name, *name.parents))
        if not skip and not linked and path.is_file():
            found.append((name.as_posix(), path))
    return found


def short_name(said: str) -> str:
    """Returns the path from the run's folder on: ``repro/graph/repro.py``."""
    parts = Path(said).parts
    for place in range(len(parts) - 2, -1, -1):
        if parts[place] in ("repro", "reduce"):
            return "/".join(parts[place:])
    return parts[-1] if parts else said


def _reduced(row: ReducedScript | None, findings: Findings, run_dir: Path | None) -> Reduced | None:
    if row is None:
        return None
    before, after = row.nodes_before, row.nodes_after
    end = _END.match(row.proof.plain)
    return Reduced(
        path=row.script,
        text=read(row.script, run_dir),
        kind=row.kind,
        nodes=(before, after) if before is not None and after is not None else None,
        lines_before=row.lines_before,
        lines_after=row.lines_after,
        verified=row.verified,
        minimal=row.minimal,
        proof=tuple(row.proof.words),
        end=(end.group(1), int(end.group(2))) if end else None,
        # A graph's script calls the compiled functions itself; a reduced script takes the user's arguments.
        args=findings.program.args if row.kind == "script" else (),
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

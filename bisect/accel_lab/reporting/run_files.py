"""Reads a finished run's files with limits: texts are cut, symbolic links are not followed."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Findings, Step
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError

#: Graph artifacts, in the order in which the compiler makes them.
GRAPHS = ("dynamo_graph", "aot_joint", "aot_forward", "aot_backward", "post_grad")


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One text file that a probe left."""

    name: str
    path: Path
    size: int

    @property
    def kind(self) -> str:
        """The name without its number and suffix: ``post_grad_0.py`` is a ``post_grad``."""
        return re.sub(r"_?(?<!\d)\d+$", "", self.name.rsplit("/", 1)[-1].split(".", 1)[0])

    @property
    def is_graph(self) -> bool:
        """Whether this is a graph, as opposed to generated code or a log."""
        return self.kind.startswith(GRAPHS)


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text that may have been cut; ``size`` is that of the whole, in bytes."""

    text: str
    size: int
    cut: bool = False


def cut(text: str, limit: int) -> str:
    """Cuts a text to about ``limit`` characters: two thirds from the start, the rest from the end."""
    if len(text) <= limit:
        return text
    head = max(limit * 2 // 3, 1)
    tail = max(limit - head, 1)
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[-tail:]}"


def read_text(path: Path, limit: int) -> Text:
    """Reads a file, without its middle if it has over ``limit`` bytes; a missing file is empty."""
    files = ChildFiles(path.parent)
    try:
        size = files.size(path.name)
        if size is None:
            return Text(text="", size=0)
        if size <= limit:
            return Text(text=files.head(path.name, limit) or "", size=size)
        head = files.part(path.name, 0, limit * 2 // 3, most=limit) or b""
        rest = limit - len(head)
        tail = files.part(path.name, size - rest, rest, most=limit) or b""
    except (UntrustedFileError, OSError):
        return Text(text="", size=0)
    left_out = size - len(head) - len(tail)
    middle = f"\n[... {left_out:,} bytes left out ...]\n"
    return Text(
        text=head.decode("utf-8", "replace") + middle + tail.decode("utf-8", "replace"), size=size, cut=True
    )


def folder_of(step: Step, run_dir: Path) -> Path | None:
    """Returns the probe folder of a step inside the run's folder, even if that was moved; or None."""
    if not step.outcome.folder:
        return None
    said = Path(step.outcome.folder)
    for folder in (said, run_dir / "probes" / said.name):
        if is_inside(folder, run_dir) and folder.is_dir():
            return folder
    return None


def is_inside(path: Path, root: Path) -> bool:
    """Whether a path, links resolved, is below a folder."""
    try:
        return Path(os.path.realpath(root)) in Path(os.path.realpath(path)).parents
    except (OSError, ValueError):  # a name that the file system refuses
        return False


def artifacts_of(step: Step, run_dir: Path) -> list[Artifact]:
    """Returns the files below the step's ``artifacts`` folder, ordered by name."""
    folder = folder_of(step, run_dir)
    return [] if folder is None else _below(folder / "artifacts")


def accelerator_files(run_dir: Path) -> list[Artifact]:
    """Returns the files that explain a run on an accelerator, ordered by name."""
    return _below(run_dir / "accelerator")


def _below(root: Path) -> list[Artifact]:
    if root.is_symlink() or not root.is_dir():
        return []
    found = []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and not _below_link(path, root):
            name = path.relative_to(root).as_posix()
            found.append(Artifact(name=name, path=path, size=path.stat().st_size))
    return sorted(found, key=lambda a: a.name)


def _below_link(path: Path, root: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if root in parent.parents)


def log_of(step: Step, run_dir: Path, name: str, limit: int) -> Text:
    """Returns ``stdout.txt`` or ``stderr.txt`` of a step; empty if it is missing."""
    folder = folder_of(step, run_dir)
    return read_text(folder / name, limit) if folder is not None else Text(text="", size=0)


def script_text(findings: Findings) -> str:
    """Returns the user's script from disk; empty for a module, or if it is gone."""
    path = findings.program.path
    return read_text(Path(path), 2_000_000).text if path else ""


def request_of(run_dir: Path) -> dict[str, Any]:
    """Returns the content of ``request.json``; empty if it is missing or damaged."""
    try:
        data = json.loads(read_text(run_dir / "request.json", 4_000_000).text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}

"""A reduced program, and the result of a whole reduction as findings contain it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.findings import Exhibit
from accel_lab.core.probe import Probe
from accel_lab.reduction.problem import Candidate
from accel_lab.reduction.script.reducer import size_of
from accel_lab.search.lab import Lab

from .candidates import LabProblem
from .target import Target


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A build on which the script passes: a repro of the same fault must pass there too."""

    name: str
    lab: Lab
    probe: Probe


@dataclass(frozen=True, kw_only=True)
class Product:
    """One reduced program. ``kind`` is ``graph`` or ``script``; sizes are before and after."""

    kind: str
    candidate: Candidate
    target: Target
    problem: LabProblem
    nodes_before: int | None = None
    nodes_after: int | None = None
    minimal: bool = True

    @property
    def size(self) -> tuple[int, int]:
        return size_of(self.candidate.source)


@dataclass(kw_only=True)
class Reduction:
    """The repro, its folder and size, its proof, and why there is none."""

    why_not: str = ""
    script: str | None = None
    graph: str | None = None
    kind: str = ""
    nodes_before: int | None = None
    nodes_after: int | None = None
    lines_before: int | None = None
    lines_after: int | None = None
    verified: bool = False
    proof: dict[str, Any] = field(default_factory=dict)
    minimal: bool = False
    same_component: bool | None = None
    candidates: int = 0
    seconds: float = 0.0
    min_good: str | None = None
    other: dict[str, Any] | None = None
    exhibits: list[Exhibit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        row = {k: v for k, v in self.__dict__.items() if k != "exhibits"}
        row["exhibits"] = [exhibit.to_json() for exhibit in self.exhibits]
        row["seconds"] = round(self.seconds, 1)
        return row


def interrupted(folder: Path) -> dict[str, Any]:
    """The result of an interrupted reduction: the smallest program so far, not verified."""
    programs = [
        p for p in (folder / "reduce" / kind / "best.py" for kind in ("graph", "script")) if p.exists()
    ]
    result = Reduction(notes=["stopped: the smallest program so far, not run again in a fresh process"])
    if programs:
        best = min(programs, key=lambda path: size_of(path.read_text(encoding="utf-8")))
        result.kind, result.script = best.parent.name, str(best)
        result.lines_after = size_of(best.read_text(encoding="utf-8"))[0]
    else:
        result.why_not = "stopped before a smaller program was found"
    return result.to_json()


__all__ = ["Elsewhere", "Product", "Reduction", "interrupted"]

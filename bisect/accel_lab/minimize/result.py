"""Results of a reduction: a reduced program, a build on which it must pass, and an interrupted result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.findings import Repro
from accel_lab.core.probe import Probe
from accel_lab.reduction.problem import Candidate
from accel_lab.reduction.script.reducer import size_of
from accel_lab.search.lab import Lab

from .candidates import LabProblem
from .target import Target


@dataclass(frozen=True, kw_only=True)
class PassingBuild:
    """A build on which the script passes; a repro of the same fault must pass there too."""

    name: str
    lab: Lab
    probe: Probe


@dataclass(frozen=True, kw_only=True)
class Product:
    """One reduced program. ``kind`` is ``graph`` or ``script``; the sizes are before and after."""

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


def interrupted(folder: Path) -> Repro:
    """Returns the result of an interrupted reduction: the smallest program so far, unverified."""
    programs = [
        p for p in (folder / "reduce" / kind / "best.py" for kind in ("graph", "script")) if p.exists()
    ]
    result = Repro(notes=["stopped: the smallest program so far, not run again in a fresh process"])
    if programs:
        best = min(programs, key=lambda path: size_of(path.read_text(encoding="utf-8")))
        result.kind, result.script = best.parent.name, str(best)
        result.lines_after = size_of(best.read_text(encoding="utf-8"))[0]
    else:
        result.why_not = "stopped before a smaller program was found"
    return result

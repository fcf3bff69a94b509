"""CompileReport: what Dynamo compiled in a run, read from the facts that the child wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .advice import for_break, for_recompile

SCHEMA = "accel-lab/guards/1"
#: Frames in the list of the costliest.
COSTLIEST = 10


@dataclass(frozen=True, kw_only=True)
class Place:
    """A function of the program: its name, its file and its first line."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """One compilation of one function.

    ``number`` is torch's ``frame/compilation``. ``guards`` are Python expressions, without those that every
    graph has; None where torch has dropped the compiled code. ``seconds`` is the whole compilation's time,
    ``backend_seconds`` the part behind Dynamo, ``code_gen_seconds`` the part of code generation.
    ``restarts`` are the reasons for which the trace began anew, ``failed`` is why it was given up.
    """

    number: str
    place: Place
    operators: int
    guard_count: int
    guards: tuple[str, ...] | None
    seconds: float
    backend_seconds: float
    code_gen_seconds: float
    restarts: tuple[str, ...]
    failed: str


@dataclass(frozen=True, kw_only=True)
class GraphBreak:
    """A place where a graph ended early, torch's reason and hints, and what to write instead."""

    place: Place
    source: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    times: int
    rewrite: str


@dataclass(frozen=True, kw_only=True)
class FailedGuard:
    """A guard of an earlier compilation that failed, and the value that was there (None: not readable)."""

    compilation: str
    guard: str
    value: str | None


@dataclass(frozen=True, kw_only=True)
class Recompilation:
    """A function that was compiled again: the guards that failed, and how to avoid it."""

    place: Place
    failed: tuple[FailedGuard, ...]
    rewrite: str


@dataclass(frozen=True, kw_only=True)
class CompileReport:
    """All of a run.

    ``limit`` is how often one function may be compiled; ``at_limit`` are those that reached it.
    The counts ``*_left_out`` tell how many rows were not kept.
    """

    compilations: tuple[Compilation, ...]
    breaks: tuple[GraphBreak, ...]
    recompilations: tuple[Recompilation, ...]
    limit: int
    at_limit: tuple[Place, ...]
    compilations_left_out: int = 0
    recompilations_left_out: int = 0

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> CompileReport:
        """Read the facts of ``child/hooks/compile_log.py``; their shape was checked when they were loaded."""
        return cls(
            compilations=tuple(_compilation(row) for row in facts["frames"]),
            breaks=tuple(_break(row) for row in facts["breaks"]),
            recompilations=tuple(_recompilation(row) for row in facts["recompiles"]),
            limit=facts["limit"],
            at_limit=tuple(_place(row) for row in facts["at_limit"]),
            compilations_left_out=facts["frames_left_out"],
            recompilations_left_out=facts["recompiles_left_out"],
        )

    @property
    def seconds(self) -> float:
        """Seconds that Dynamo and what is behind it took, over all compilations."""
        return sum(one.seconds for one in self.compilations)

    @property
    def costliest(self) -> tuple[Compilation, ...]:
        """The compilations that took longest, the longest first."""
        return tuple(sorted(self.compilations, key=lambda one: -one.seconds)[:COSTLIEST])

    @property
    def compiled_again(self) -> tuple[tuple[Place, int], ...]:
        """Each function that was compiled again, and how often, the most frequent first."""
        return tuple(Counter(one.place for one in self.recompilations).most_common())

    def to_json(self) -> dict[str, Any]:
        """The object of ``reporting/guards.schema.json``."""
        return {
            "schema": SCHEMA,
            **asdict(self),
            "seconds": round(self.seconds, 6),
            "costliest": [one.number for one in self.costliest],
        }


def _place(row: Mapping[str, Any]) -> Place:
    return Place(function=row["function"], file=row["file"], line=row["line"])


def _compilation(row: Mapping[str, Any]) -> Compilation:
    guards: Sequence[str] | None = row["guards"]
    return Compilation(
        number=row["id"],
        place=_place(row),
        operators=row["operators"],
        guard_count=row["guard_count"],
        guards=None if guards is None else tuple(guards),
        seconds=float(row["seconds"]),
        backend_seconds=float(row["backend_seconds"]),
        code_gen_seconds=float(row["code_gen_seconds"]),
        restarts=tuple(row["restarts"]),
        failed=row["failed"],
    )


def _break(row: Mapping[str, Any]) -> GraphBreak:
    explanation = " ".join(row["explanation"])
    return GraphBreak(
        place=_place(row),
        source=row["source"],
        reason=row["reason"],
        explanation=explanation,
        hints=tuple(row["hints"]),
        times=row["times"],
        rewrite=for_break(f"{row['reason']} {explanation}", row["source"]),
    )


def _recompilation(row: Mapping[str, Any]) -> Recompilation:
    failed = tuple(
        FailedGuard(compilation=one["compilation"], guard=one["guard"], value=one["value"])
        for one in row["failed"]
    )
    return Recompilation(
        place=_place(row),
        failed=failed,
        rewrite=for_recompile(failed[0].guard) if failed else "",
    )

"""Reports Dynamo's compilations, graph breaks and recompilations in a run, from the child's facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .advice import for_break, for_recompile

SCHEMA = "accel-lab/guards/1"
#: Number of compilations in the list of the costliest.
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
    graph has; None if torch has dropped the compiled code. ``seconds`` is the time of the whole compilation,
    ``backend_seconds`` that of the backend, ``code_gen_seconds`` that of code generation. ``restarts`` are
    the reasons for restarted traces; ``failed`` is the reason why compilation failed, else empty.
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
    """A graph break with torch's reason and hints; ``rewrite`` is advice to avoid it, else empty."""

    place: Place
    source: str
    reason: str
    explanation: str
    hints: tuple[str, ...]
    times: int
    rewrite: str


@dataclass(frozen=True, kw_only=True)
class FailedGuard:
    """A guard of an earlier compilation that failed, with the actual value (None: not readable)."""

    compilation: str
    guard: str
    value: str | None


@dataclass(frozen=True, kw_only=True)
class Recompilation:
    """A recompilation with the guards that failed; ``rewrite`` is advice to avoid it, else empty."""

    place: Place
    failed: tuple[FailedGuard, ...]
    rewrite: str


@dataclass(frozen=True, kw_only=True)
class CompileReport:
    """All compilations of a run.

    ``limit`` is Dynamo's recompile limit; ``at_limit`` are the functions that reached it. ``*_left_out``
    count the rows that were not kept.
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
        """Reads the facts of ``child/hooks/compile_log.py``, whose shape was checked on loading."""
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
        """The total compile time in seconds, backend included."""
        return sum(one.seconds for one in self.compilations)

    @property
    def costliest(self) -> tuple[Compilation, ...]:
        """The compilations that took longest, longest first; at most ``COSTLIEST``."""
        return tuple(sorted(self.compilations, key=lambda one: -one.seconds)[:COSTLIEST])

    @property
    def compiled_again(self) -> tuple[tuple[Place, int], ...]:
        """Each recompiled function with the number of recompilations, most frequent first."""
        return tuple(Counter(one.place for one in self.recompilations).most_common())

    def to_json(self) -> dict[str, Any]:
        """Returns the object described by ``reporting/guards.schema.json``."""
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

"""The best program so far; it is replaced by the first interesting candidate of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from accel_lab.reduction.engine import first_interesting
from accel_lab.reduction.problem import Candidate, Problem

from .emit import Check, emit
from .program import Program

T = TypeVar("T")


class State:
    """Holds ``program``, which is always interesting; no candidate is proposed twice."""

    def __init__(self, problem: Problem, program: Program, check: Check) -> None:
        self.problem = problem
        self.program = program
        self.check = check
        self._done: set[str] = {emit(program, check).source}

    def first(self, proposals: Iterable[Program | None], note: str) -> bool:
        """Takes the first interesting proposal; returns whether there was one."""
        drawn: list[str] = []

        def candidates() -> Iterator[tuple[tuple[int, Program], Candidate]]:
            for program in proposals:
                if program is None:
                    continue
                candidate = emit(program, self.check)
                if candidate.source in self._done or candidate.source in drawn:
                    continue
                drawn.append(candidate.source)
                yield (len(drawn) - 1, program), candidate

        taken = first_interesting(self.problem, candidates())
        if taken is None:
            self._done.update(drawn)
            return False
        (position, self.program), candidate = taken
        self._done.update(drawn[: position + 1])
        self.problem.found(candidate, note)
        return True

    def repeat(self, proposals: Callable[[], Iterable[Program | None]], note: str) -> bool:
        """Takes proposals, generated anew from each better program, until none is interesting."""
        any_taken = False
        while self.first(proposals(), note):
            any_taken = True
        return any_taken

    def drop(
        self,
        items: Callable[[], Sequence[T]],
        build: Callable[[Sequence[T]], Iterable[Program | None]],
        note: str,
    ) -> bool:
        """Drops chunks of ``items()`` of decreasing size, from the back, by delta debugging.

        ``items`` lists the items of the current program; ``build`` proposes programs without the given items.
        Returns whether anything was dropped.
        """
        any_taken = False
        size = max(1, len(items()) // 2)
        while True:
            current = items()
            if not current:
                return any_taken
            size = min(size, len(current))
            chunks = [current[max(0, end - size) : end] for end in range(len(current), 0, -size)]
            if self.first((program for chunk in chunks for program in build(chunk)), note):
                any_taken = True
            elif size == 1:
                return any_taken
            else:
                size //= 2

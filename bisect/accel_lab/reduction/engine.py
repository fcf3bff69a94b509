"""Asks candidates side by side and takes the first, in their order, that is interesting.

Asking ahead is speculation: what comes after the first interesting candidate is thrown away, so the
result is the same as that of asking one by one and does not depend on how many workers there are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from .problem import Candidate, Problem

T = TypeVar("T")


def first_interesting(
    problem: Problem, proposals: Iterable[tuple[T, Candidate]]
) -> tuple[T, Candidate] | None:
    """The first proposal whose candidate is interesting, or None. Proposals are drawn lazily."""
    running: deque[tuple[T, Candidate, Future[bool]]] = deque()
    source = iter(proposals)
    try:
        while True:
            while len(running) < problem.workers:
                proposal = next(source, None)
                if proposal is None:
                    break
                running.append((*proposal, problem.submit(proposal[1])))
            if not running:
                return None
            tag, candidate, future = running.popleft()
            if future.result():
                return tag, candidate
    finally:
        for *_, future in running:
            future.cancel()


def smallest_subset(
    problem: Problem, items: Sequence[T], build: Callable[[Sequence[T]], Candidate | None]
) -> list[T]:
    """A 1-minimal sublist of ``items`` whose built candidate is interesting, by delta debugging.

    ``build`` may return None for a sublist that cannot be built. The whole list is taken to be
    interesting without asking (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
    Input"; complements only, as shrinking parts rarely survive alone).
    """
    current = list(items)
    size = max(1, len(current) // 2)
    while current:
        taken = _drop_one_chunk(problem, current, size, build)
        if taken is not None:
            current = taken
            size = max(1, min(size, len(current) // 2))
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
    return current


def _drop_one_chunk(
    problem: Problem, current: Sequence[T], size: int, build: Callable[[Sequence[T]], Candidate | None]
) -> list[T] | None:
    def proposals() -> Iterable[tuple[list[T], Candidate]]:
        for end in range(len(current), 0, -size):  # from the back: what is used depends on what is before
            rest = [*current[: max(0, end - size)], *current[end:]]
            candidate = build(rest)
            if candidate is not None:
                yield rest, candidate

    found = first_interesting(problem, proposals())
    return None if found is None else found[0]

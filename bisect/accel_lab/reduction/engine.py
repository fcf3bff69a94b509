"""Tests candidates in parallel and takes the first interesting one, in proposal order.

Testing ahead is speculative: candidates after the first interesting one are discarded, so the result does not
depend on the number of workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from .problem import Candidate, OutOfBudget, Problem

T = TypeVar("T")


def first_interesting(
    problem: Problem, proposals: Iterable[tuple[T, Candidate]]
) -> tuple[T, Candidate] | None:
    """Returns the first proposal whose candidate is interesting, or None. Proposals are drawn lazily.

    Raises :class:`OutOfBudget` when the time is over, but first waits for running candidates: one may be
    interesting.
    """
    running: deque[tuple[T, Candidate, Future[bool]]] = deque()
    source = iter(proposals)
    over: OutOfBudget | None = None
    try:
        while True:
            while over is None and len(running) < problem.workers:
                proposal = next(source, None)
                if proposal is None:
                    break
                try:
                    running.append((*proposal, problem.submit(proposal[1])))
                except OutOfBudget as error:
                    over = error
            if not running:
                if over is not None:
                    raise over
                return None
            tag, candidate, future = running.popleft()
            if future.result():
                return tag, candidate
    finally:
        for *_, future in running:
            future.cancel()


def smallest_subset(
    problem: Problem,
    items: Sequence[T],
    build: Callable[[Sequence[T]], Candidate | None],
    *,
    start: int | None = None,
    taken: Callable[[list[T], Candidate], None] | None = None,
) -> list[T]:
    """Returns a 1-minimal sublist of ``items`` whose built candidate is interesting, by delta debugging.

    ``build`` may return None for a sublist that cannot be built. The whole list is assumed to be interesting
    without a test (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"; complements
    only, because small parts alone rarely fail). ``start`` is the size of the first chunks, by default half
    of the list. ``taken`` is called with every smaller sublist as soon as it is found.
    """
    current = list(items)
    size = max(1, start if start is not None else len(current) // 2)
    while current:
        size = min(size, len(current))
        current = _without_chunks(problem, current, size, build, taken)
        if size == 1:
            break
        size //= 2
    return current


def _without_chunks(
    problem: Problem,
    current: list[T],
    size: int,
    build: Callable[[Sequence[T]], Candidate | None],
    taken: Callable[[list[T], Candidate], None] | None,
) -> list[T]:
    """Drops chunks of ``size`` from the back to the front, because uses come after definitions.

    After a success the search continues in front of the chunk. With chunks of one it wraps around to the back
    until every item has been tried since the last success, which makes the result 1-minimal.
    """
    end = len(current)
    while current:
        found = first_interesting(problem, _shorter(current, end, size, build))
        if found is None:
            return current
        (current, end), candidate = found
        if taken is not None:
            taken(current, candidate)
        if end == 0 and size > 1:
            return current
    return current


def _shorter(
    current: Sequence[T], end: int, size: int, build: Callable[[Sequence[T]], Candidate | None]
) -> Iterator[tuple[tuple[list[T], int], Candidate]]:
    """Yields each sublist without one chunk, with the place to continue at.

    Chunks are dropped from ``end`` to the front, then from the back.
    """
    ends = list(range(end, 0, -size))
    if size == 1:
        ends += range(len(current), end, -1)
    for stop in ends:
        low = max(0, stop - size)
        rest = [*current[:low], *current[stop:]]
        candidate = build(rest)
        if candidate is not None:
            yield (rest, low), candidate

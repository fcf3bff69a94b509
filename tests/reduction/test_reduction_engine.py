"""Delta debugging: minimal, without a question asked twice, and the same for any number of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_lab.reduction.engine import first_interesting, smallest_subset
from accel_lab.reduction.problem import Candidate, OutOfBudget


class NumbersProblem:
    """Candidates are lists of numbers as text; counts what is asked."""

    def __init__(
        self, interesting: Callable[[set[int]], bool], workers: int = 1, budget: int | None = None
    ) -> None:
        self._interesting = interesting
        self._budget = budget
        self.workers = workers
        self.asked: list[str] = []

    def submit(self, candidate: Candidate) -> Future[bool]:
        if self._budget is not None and len(self.asked) >= self._budget:
            raise OutOfBudget
        self.asked.append(candidate.source)
        future: Future[bool] = Future()
        future.set_result(self._interesting({int(word) for word in candidate.source.split()}))
        return future

    def found(self, candidate: Candidate, note: str) -> None:
        raise AssertionError("the engine leaves this to its caller")


def text(items: Sequence[int]) -> Candidate:
    return Candidate(" ".join(map(str, items)))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.data(), st.integers(1, 4))
def test_subset_is_the_needed_one(count: int, data: st.DataObject, workers: int) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1)))
    problem = NumbersProblem(lambda have: needed <= have, workers)
    assert set(smallest_subset(problem, range(count), text)) == needed


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.data())
def test_subset_is_one_minimal_and_the_same_for_all_workers(count: int, data: st.DataObject) -> None:
    # Any predicate: which sets are interesting is drawn as a parity of some of the members.
    groups = data.draw(st.lists(st.sets(st.integers(0, count - 1), min_size=1), max_size=4))

    def interesting(have: set[int]) -> bool:
        return all(len(group - have) % 2 == 0 for group in groups)

    results = [
        smallest_subset(NumbersProblem(interesting, workers), range(count), text) for workers in (1, 2, 5)
    ]
    assert results[0] == results[1] == results[2]
    kept = set(results[0])
    assert interesting(kept)
    assert not any(interesting(kept - {one}) for one in kept)


def test_goes_on_in_front_of_what_was_dropped() -> None:
    problem = NumbersProblem(lambda have: 63 in have)
    assert smallest_subset(problem, range(64), text) == [63]
    # One question for each size at the back where 63 stands, one for each chunk before it.
    assert len(problem.asked) <= 2 * 7
    assert len(set(problem.asked)) == len(problem.asked)


def test_asks_for_all_at_once_when_told_so() -> None:
    problem = NumbersProblem(lambda have: True)
    assert smallest_subset(problem, range(50), text, start=50) == []
    assert problem.asked == [""]


def test_each_smaller_sublist_is_told() -> None:
    told: list[list[int]] = []
    problem = NumbersProblem(lambda have: {1, 5} <= have)
    result = smallest_subset(problem, range(8), text, taken=lambda kept, candidate: told.append(kept))
    assert told[-1] == result == [1, 5]
    assert [len(kept) for kept in told] == sorted((len(kept) for kept in told), reverse=True)


def test_what_cannot_be_built_is_not_asked() -> None:
    problem = NumbersProblem(lambda have: True)
    assert smallest_subset(problem, range(6), lambda rest: text(rest) if 3 in rest else None) == [3]
    assert all("3" in source.split() for source in problem.asked)


def test_first_in_order_wins_and_the_rest_is_cancelled() -> None:
    futures: dict[str, Future[bool]] = {}

    class Slow(NumbersProblem):
        def submit(self, candidate: Candidate) -> Future[bool]:
            futures[candidate.source] = Future()
            if candidate.source in ("1", "2"):
                futures[candidate.source].set_result(True)
            return futures[candidate.source]

    proposals = [(name, Candidate(name)) for name in ("1", "2", "3", "4")]
    found = first_interesting(Slow(lambda have: True, workers=3), proposals)
    assert found is not None and found[0] == "1"
    assert futures["3"].cancelled()
    assert "4" not in futures


def test_time_over_waits_for_what_runs() -> None:
    problem = NumbersProblem(lambda have: have == {2}, workers=5, budget=3)
    proposals = [(n, text([n])) for n in range(6)]
    found = first_interesting(problem, proposals)
    assert found is not None and found[0] == 2
    with pytest.raises(OutOfBudget):
        first_interesting(NumbersProblem(lambda have: False, workers=5, budget=3), proposals)

"""Scripts that fail now and then, on a line of releases: how many runs, and how sure the chain is."""

from __future__ import annotations

import random
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_lab.core.releases.versions import Tested as Row
from accel_lab.core.verdict import Verdict
from accel_lab.search.repeats import Tally
from accel_lab.search.timeline.plan import grid_points
from accel_lab.search.timeline.repeat_policy import Patience, chain_length
from accel_lab.search.timeline.version_search import LineSearch
from fakes_versions import names


def test_a_steady_failure_needs_one_run() -> None:
    steady = Patience(failing=Tally(runs=3, failures=3), verdicts=9)
    assert steady.passes == 1
    assert steady.verdict(Tally(runs=1)) is Verdict.GOOD
    assert steady.error(Tally(runs=1)) == 0.0


def test_a_flaky_one_is_never_called_good_too_early() -> None:
    patience = Patience(failing=Tally(runs=10, failures=5), verdicts=9, budget=0.05)
    for passes in range(1, 40):
        runs = Tally(runs=passes)
        within = patience.error(runs) <= 0.05 / 9
        assert patience.verdict(runs) is (Verdict.GOOD if within else Verdict.SKIP)
        assert patience.enough(runs) is (passes >= patience.passes)
    assert patience.verdict(Tally(runs=patience.passes)) is Verdict.GOOD
    assert patience.verdict(Tally(runs=patience.passes - 1)) is Verdict.SKIP
    assert patience.verdict(Tally()) is Verdict.SKIP


def test_one_failure_settles_a_release() -> None:
    patience = Patience(failing=Tally(runs=10, failures=2), verdicts=9)
    runs = Tally(runs=4, failures=1)
    assert patience.enough(runs)
    assert patience.verdict(runs) is Verdict.BAD
    assert patience.error(runs) == 0.0


def test_a_rate_too_low_for_the_runs_allowed_is_told_not_guessed() -> None:
    patience = Patience(failing=Tally(runs=40, failures=1), verdicts=9, most=20)
    assert patience.enough(Tally(runs=20))
    assert patience.verdict(Tally(runs=20)) is Verdict.SKIP


def test_bad_releases_teach_the_rate() -> None:
    patience = Patience(failing=Tally(runs=5, failures=2), verdicts=9)
    more = patience.seen(Tally(runs=20, failures=10))
    assert more.failing == Tally(runs=25, failures=12)
    assert more.passes < patience.passes
    assert patience.seen(Tally(runs=20)) is patience


@given(st.integers(1, 300), st.none() | st.integers(0, 20))
@settings(deadline=None)
def test_the_chain_is_as_long_as_a_search_for_one_flip_can_be(size: int, grid: int | None) -> None:
    line = names(size)
    longest = chain_length(size, grid)
    assert longest <= size
    for place in {0, 1, size // 3, size - 1}:
        rows = [
            Row(torch=name, verdict=Verdict.BAD if n >= place else Verdict.GOOD)
            for n, name in enumerate(line)
        ]
        engine = LineSearch(line, _Table(rows), grid=grid)
        engine.run()
        assert engine.probes <= longest
    assert len(grid_points(size, grid)) <= longest


class _Table:
    def __init__(self, rows: list[Row]) -> None:
        self._rows = {row.torch: row for row in rows}

    def submit(self, version: str) -> Future[Row]:
        job: Future[Row] = Future()
        job.set_result(self._rows[version])
        return job

    def prefetch(self, version: str) -> None:
        pass


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_the_chain_is_wrong_less_often_than_its_budget(rate: float) -> None:
    wrong = unsure = 0
    for seed in range(80):
        chance = random.Random(seed)
        line = names(20)
        patience = Patience(
            failing=_runs(chance, rate, 12), verdicts=chain_length(len(line)), budget=0.1, most=200
        )

        class Asker:
            def submit(
                self, version: str, chance: random.Random = chance, patience: Patience = patience
            ) -> Future[Row]:
                fails = rate if names(20).index(version) >= 13 else 0.0
                runs = Tally()
                while not patience.enough(runs):
                    runs = runs.plus(_runs(chance, fails, 1))
                row = Row(
                    torch=version,
                    verdict=patience.verdict(runs),
                    runs=runs.runs,
                    error=patience.error(runs),
                )
                job: Future[Row] = Future()
                job.set_result(row)
                return job

            def prefetch(self, version: str) -> None:
                pass

        versions = LineSearch(line, Asker()).run()
        right = [(flip.after, flip.at) for flip in versions.flips] == [("2.12.0", "2.13.0")]
        if right and patience.flaky:
            assert versions.confidence is not None
            assert versions.confidence >= 0.9
        unsure += any(row.verdict is Verdict.SKIP for row in versions.tested)
        wrong += not right
    assert wrong - unsure <= 80 * 0.1


def _runs(chance: random.Random, rate: float, count: int) -> Tally:
    return Tally(runs=count, failures=sum(chance.random() < rate for _ in range(count)))

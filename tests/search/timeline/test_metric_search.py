"""A regression that is a number: the rank test, the judge, and the search along a line of releases."""

from __future__ import annotations

import itertools
import math
import random
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.verdict import Verdict
from accel_lab.search.timeline import metric_search
from accel_lab.search.timeline.metric_judge import METRICS, MetricJudge, parse_worse_by
from accel_lab.search.timeline.metric_search import Measured, MetricOptions, MetricSearch, sample_sizes
from accel_lab.search.timeline.rank_test import (
    _approximated,
    _counted,
    _doubled_ranks,
    chance_larger,
    least_chance,
)
from accel_lab.search.timeline.version_search import LineSearch
from fakes_versions import names

# -- the rank test ---------------------------------------------------------------------------------


def by_enumeration(samples: list[int], others: list[int]) -> float:
    """U of every way to call ``len(samples)`` of all the values the samples."""

    def u(mine: list[int], rest: list[int]) -> float:
        return sum((m > r) + (m == r) / 2 for m in mine for r in rest)

    both = samples + others
    seen = u(samples, others)
    larger = total = 0
    for chosen in itertools.combinations(range(len(both)), len(samples)):
        rest = [value for place, value in enumerate(both) if place not in chosen]
        total += 1
        larger += u([both[place] for place in chosen], rest) >= seen
    return larger / total


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
)
@settings(deadline=None)
def test_few_samples_are_counted_exactly_ties_included(samples: list[int], others: list[int]) -> None:
    assert chance_larger(samples, others) == pytest.approx(by_enumeration(samples, others))


def test_all_above_all_others_is_one_choice_among_all() -> None:
    assert chance_larger([4, 5, 6], [1, 2, 3]) == pytest.approx(1 / 20)
    assert chance_larger([1, 2, 3], [4, 5, 6]) == 1.0
    assert chance_larger([1, 1], [1, 1, 1]) == 1.0
    assert chance_larger([], [1.0]) == chance_larger([1.0], []) == 1.0
    assert least_chance(5, 5) == pytest.approx(1 / 252)


@given(st.integers(12, 22), st.integers(12, 22), st.integers(0, 2**30), st.sampled_from([20, 10**9]))
@settings(max_examples=15, deadline=None)
def test_many_samples_are_approximated_closely(one: int, two: int, seed: int, different: int) -> None:
    chance = random.Random(seed)
    values = [chance.randrange(different) for _ in range(one + two)]
    ranks = _doubled_ranks(values)
    exact = _counted(ranks, one, sum(ranks[:one]))
    close = 0.006 if len(set(ranks)) == len(ranks) else 0.02
    assert _approximated(ranks, one, sum(ranks[:one])) == pytest.approx(exact, abs=close)


def test_beyond_the_counted_sizes_the_approximation_is_used() -> None:
    low, high = [float(n) for n in range(40)], [n + 30.5 for n in range(40)]
    assert chance_larger(high, low) < 1e-9
    assert chance_larger(low, high) > 0.999
    assert chance_larger([1.0] * 30, [1.0] * 30) == 1.0


# -- the judge -------------------------------------------------------------------------------------


def test_bad_needs_the_factor_and_the_rank_test() -> None:
    judge = MetricJudge(good=[1.0, 1.1, 1.05, 0.95, 1.02], worse_by=1.3)
    assert judge.judge([1.5, 1.6, 1.4, 1.45, 1.55]) is Verdict.BAD
    # Surely slower, but not by the factor.
    assert judge.judge([1.15, 1.2, 1.16, 1.17, 1.18]) is Verdict.GOOD
    # By the factor, but too few samples to exclude chance.
    few = judge.reading([1.5, 1.6])
    assert few.verdict is Verdict.SKIP
    assert "may be chance" in few.why
    # The median is below the factor, but the samples reach so far beyond it that nothing can be said.
    assert judge.judge([1.0, 1.9, 1.2, 1.8, 1.1]) is Verdict.SKIP


def test_one_outlier_does_not_make_a_release_bad() -> None:
    judge = MetricJudge(good=[1.0, 1.1, 1.05, 0.95, 1.02, 0.99], worse_by=1.3)
    assert judge.judge([1.0, 1.1, 1.05, 0.95, 1.02, 50.0]) is not Verdict.BAD


@given(st.floats(0.5, 3.0), st.integers(0, 2**30))
@settings(deadline=None)
def test_a_verdict_never_contradicts_the_median(factor: float, seed: int) -> None:
    chance = random.Random(seed)
    good = [chance.gauss(1.0, 0.1) for _ in range(6)]
    reading = MetricJudge(good=good, worse_by=1.3).reading(
        [factor * chance.gauss(1.0, 0.1) for _ in range(6)]
    )
    assert (reading.verdict is Verdict.BAD) <= (reading.ratio >= 1.3)
    assert (reading.verdict is Verdict.GOOD) <= (reading.ratio < 1.3)
    assert reading.verdict is Verdict.SKIP or reading.chance <= 0.01


def test_counters_need_one_sample() -> None:
    judge = MetricJudge(good=[10.0], worse_by=1.3, exact=True)
    assert judge.judge([13.0]) is Verdict.BAD
    assert judge.judge([12.0]) is Verdict.GOOD
    assert judge.judge([12.0, 13.0]) is Verdict.SKIP
    assert "12 to 13" in judge.reading([12.0, 13.0]).why
    none = MetricJudge(good=[0.0], worse_by=1.3, exact=True)
    assert none.judge([0.0]) is Verdict.GOOD
    assert none.judge([1.0]) is Verdict.BAD
    assert none.reading([1.0]).ratio == math.inf
    assert judge.judge([]) is Verdict.SKIP


@pytest.mark.parametrize("text", ["1.3x", "1.3", " 1.3X ", "30%", "30 %"])
def test_a_factor_can_be_written_in_several_ways(text: str) -> None:
    assert parse_worse_by(text) == pytest.approx(1.3)


@pytest.mark.parametrize("text", ["", "x", "1", "0.5x", "0%", "-3", "1.3y", "1e3", "nan"])
def test_a_wrong_factor_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--worse-by"):
        parse_worse_by(text)


# -- the search ------------------------------------------------------------------------------------


@dataclass
class FakeMeasurer:
    """``level`` is what each release takes; ``noise`` a relative spread, ``drift`` slows down all."""

    level: dict[str, float | str]
    noise: float = 0.0
    drift: float = 0.0
    seed: int = 0
    taken: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    stop_at: int | None = None

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._clock = 0

    def submit(self, version: str, count: int) -> Future[Measured]:
        self.asked.append(version)
        job: Future[Measured] = Future()
        value = self.level[version]
        if self.stop_at is not None and len(self.asked) > self.stop_at:
            job.set_exception(KeyboardInterrupt())
        elif value == "none":
            job.set_exception(EnvironmentUnavailable("no wheel"))
        elif isinstance(value, str):
            job.set_result(Measured(why=value))
        else:
            self.taken[version] = self.taken.get(version, 0) + count
            job.set_result(Measured(samples=tuple(self._one(value) for _ in range(count)), seconds=1.0))
        return job

    def prefetch(self, version: str) -> None:
        pass

    def _one(self, value: float) -> float:
        self._clock += 1
        return value * math.exp(self._chance.gauss(0.0, self.noise)) * (1 + self.drift * self._clock)


def line_of(*levels: float | str) -> dict[str, float | str]:
    return dict(zip(names(len(levels)), levels, strict=True))


def test_a_slower_release_is_found_among_noise() -> None:
    measure = FakeMeasurer(line_of(*[1.0] * 7, *[1.5] * 6), noise=0.05)
    versions = MetricSearch(list(measure.level), measure, METRICS["latency"]).run()
    (flip,) = versions.flips
    assert (flip.after, flip.at, flip.kind) == ("2.6.0", "2.7.0", "introduced")
    assert flip.confidence is not None
    assert flip.confidence >= 0.98
    row = next(row for row in versions.tested if row.torch == "2.7.0")
    assert row.metric.ratio == pytest.approx(1.5, rel=0.15)
    assert len(row.metric.samples) == row.runs == 6
    assert versions.notes[0].startswith("the good end is torch 2.0.0, time of a call once compiled 0.98")


def test_slower_then_mended_from_the_other_end() -> None:
    measure = FakeMeasurer(line_of(*[2.0] * 5, *[1.0] * 6), noise=0.03)
    versions = MetricSearch(
        list(measure.level), measure, METRICS["peak_memory"], MetricOptions(good="last")
    ).run()
    assert [(flip.at, flip.kind) for flip in versions.flips] == [("2.5.0", "fixed")]


def test_a_machine_that_slows_down_is_no_regression() -> None:
    measure = FakeMeasurer(line_of(*[1.0] * 12), noise=0.02, drift=0.02)
    versions = MetricSearch(list(measure.level), measure, METRICS["compile_time"]).run()
    assert versions.flips == ()
    assert measure.taken["2.0.0"] > 2 * measure.taken["2.11.0"]
    assert measure._clock * measure.drift > 0.3  # it would have been, had the good end been measured once


@pytest.mark.parametrize(("metric", "width"), [("latency", 1), ("compile_time", 1), ("peak_memory", 4)])
def test_timed_releases_are_never_measured_side_by_side(
    metric: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []

    class Watched(LineSearch):
        def __init__(self, *args: Any, side_by_side: int, **options: Any) -> None:
            widths.append(side_by_side)
            super().__init__(*args, side_by_side=side_by_side, **options)

    monkeypatch.setattr(metric_search, "LineSearch", Watched)
    measure = FakeMeasurer(line_of(*[1.0] * 5, *[2.0] * 5))
    assert MetricSearch(list(measure.level), measure, METRICS[metric], side_by_side=4).run().flips
    assert widths == [width]


def test_a_look_that_would_do_alone_is_not_enough_among_three() -> None:
    samples = {"2.0.0": [1.0, 1.01, 1.02, 1.03, 1.04, 1.05], "2.1.0": [2.0, 2.1, 2.2, 2.3, 2.4, 1.035] * 2}
    assert MetricJudge(good=samples["2.0.0"], worse_by=1.3).judge(samples["2.1.0"][:6]) is Verdict.BAD

    class Scripted(FakeMeasurer):
        def submit(self, version: str, count: int) -> Future[Measured]:
            job: Future[Measured] = Future()
            job.set_result(Measured(samples=tuple(samples[version][:count])))
            return job

    versions = MetricSearch(list(samples), Scripted({}), METRICS["peak_memory"]).run()
    row = versions.tested[1]
    assert (row.verdict, row.runs) == (Verdict.BAD, 12)
    assert row.error == pytest.approx(3 * chance_larger(samples["2.1.0"], samples["2.0.0"]))


def test_what_stays_unclear_is_skipped_after_the_most_samples() -> None:
    measure = FakeMeasurer(line_of(1.0, 1.0, 1.31, 2.0, 2.0), noise=0.3, seed=3)
    versions = MetricSearch(
        list(measure.level), measure, METRICS["peak_memory"], MetricOptions(most_samples=12), grid=3
    ).run()
    row = next(row for row in versions.tested if row.torch == "2.2.0")
    assert row.verdict is Verdict.SKIP
    assert (row.runs, row.error) == (12, 0.0)
    assert "may be chance" in row.why


def test_counters_are_measured_once() -> None:
    measure = FakeMeasurer(line_of(*[4] * 6, *[9] * 6))
    versions = MetricSearch(list(measure.level), measure, METRICS["kernels"]).run()
    assert [flip.at for flip in versions.flips] == ["2.6.0"]
    assert set(measure.taken.values()) == {1}
    assert versions.confidence is None


def test_a_good_end_that_cannot_be_measured_gives_way_to_its_neighbour() -> None:
    measure = FakeMeasurer(line_of("none", "raises at import", 3, 3, 3, 7, 7, 7))
    versions = MetricSearch(list(measure.level), measure, METRICS["graph_breaks"]).run()
    assert [flip.at for flip in versions.flips] == ["2.5.0"]
    assert versions.notes[0] == "the good end is torch 2.2.0, graph breaks 3"
    assert [row.why for row in versions.tested[:2]] == ["no wheel", "raises at import"]
    assert measure.asked.count("2.0.0") == 1


def test_a_line_that_cannot_be_measured_at_all() -> None:
    measure = FakeMeasurer(line_of("none", "none", "none"))
    versions = MetricSearch(list(measure.level), measure, METRICS["latency"]).run()
    assert versions.flips == ()
    assert versions.complete
    assert {row.verdict for row in versions.tested} == {Verdict.SKIP}
    assert len(measure.asked) == 3


def test_an_interruption_keeps_the_measured() -> None:
    measure = FakeMeasurer(line_of(*[1.0] * 5, *[2.0] * 5), stop_at=3)
    engine = MetricSearch(list(measure.level), measure, METRICS["recompiles"])
    assert engine.found.tested == ()
    with pytest.raises(KeyboardInterrupt):
        engine.run()
    assert not engine.found.complete
    assert "2.0.0" in [row.torch for row in engine.found.tested]
    assert engine.found.notes[0].startswith("the good end is torch 2.0.0")


def test_no_flip_is_told_in_the_words_of_the_metric() -> None:
    measure = FakeMeasurer(line_of(*[5] * 4))
    versions = MetricSearch(list(measure.level), measure, METRICS["kernels"], MetricOptions(worse_by=2)).run()
    assert any("has 2 times the generated kernels of the good end, or more" in n for n in versions.notes)


@pytest.mark.parametrize(("level", "most"), [(0.05, 20), (0.01, 20), (0.001, 40), (0.01, 12)])
def test_the_first_look_can_settle_it_though_the_level_is_shared(level: float, most: int) -> None:
    sizes = sample_sizes(level, most)
    assert least_chance(sizes[0], sizes[0]) <= level / len(sizes)
    assert sizes[-1] == most
    assert list(sizes) == sorted(set(sizes))


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_wrong_verdicts_are_rarer_than_the_level(noise: float) -> None:
    # Without any difference between the releases, however noisy: a flip is a false alarm.
    alarms = 0
    for seed in range(60):
        measure = FakeMeasurer(line_of(1.0, 1.0), noise=noise, seed=seed)
        versions = MetricSearch(
            list(measure.level), measure, METRICS["peak_memory"], MetricOptions(level=0.05)
        ).run()
        alarms += len(versions.flips)
    assert alarms <= 6

"""Judges whether a release is worse than the good end by a factor, from numbers that vary between runs.

BAD needs both: the median is worse by the factor, and the rank test rules out chance. GOOD needs as much: the
rank test says that the numbers lie below the good ones times the factor. Anything in between takes more
samples, and is SKIP if they do not help.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from accel_lab.core.errors import UsageError
from accel_lab.core.verdict import Verdict

from .rank_test import chance_larger


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number that a run yields; larger is worse.

    ``exact``: the same on every run, so one sample is enough. ``timed``: a parallel run would change it.
    """

    name: str
    unit: str
    words: str
    exact: bool = False
    timed: bool = False


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(name="compile_time", unit="s", words="time to compile", timed=True),
        Metric(name="latency", unit="s", words="time of a call once compiled", timed=True),
        Metric(name="peak_memory", unit="MB", words="peak memory"),
        Metric(name="graph_breaks", unit="", words="graph breaks", exact=True),
        Metric(name="recompiles", unit="", words="recompilations", exact=True),
        Metric(name="kernels", unit="", words="generated kernels", exact=True),
    )
}

_LONGEST = 12
_FACTOR = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[x%]?)", re.I)


def parse_worse_by(text: str) -> float:
    """Parses a factor: ``1.3x``, ``1.3`` and ``30%`` are all 1.3. Raises UsageError unless it is above 1."""
    match = _FACTOR.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise UsageError(f"--worse-by {text[:80]}: write a factor such as 1.3x, or a percentage such as 30%")
    factor = float(match["number"])
    if match["unit"] == "%":
        factor = 1.0 + factor / 100
    if factor <= 1.0:
        raise UsageError(f"--worse-by {text}: the factor must be above 1, as 1.3x or 30% are")
    return factor


@dataclass(frozen=True, kw_only=True)
class MetricReading:
    """What the samples of one release say. ``chance`` is the probability that the verdict is luck."""

    verdict: Verdict
    median: float
    ratio: float
    chance: float = 0.0
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class MetricJudge:
    """Judges samples against those of the good end. ``level`` is the allowed chance of a wrong verdict."""

    good: Sequence[float]
    worse_by: float
    level: float = 0.01
    exact: bool = False

    def judge(self, samples: Sequence[float]) -> Verdict:
        """Returns GOOD, BAD (worse by the factor), or SKIP (too few samples to decide)."""
        return self.reading(samples).verdict

    def reading(self, samples: Sequence[float]) -> MetricReading:
        """Returns the verdict with its numbers."""
        if not samples or not self.good:
            return MetricReading(verdict=Verdict.SKIP, median=math.nan, ratio=math.nan, why="no samples")
        middle = median(samples)
        ratio = _ratio(middle, median(self.good))
        if self.exact:
            return self._counted(samples, middle, ratio)
        worse = ratio >= self.worse_by
        if worse:
            chance = chance_larger(samples, self.good)
        else:
            chance = chance_larger([value * self.worse_by for value in self.good], samples)
        if chance <= self.level:
            return MetricReading(
                verdict=Verdict.BAD if worse else Verdict.GOOD, median=middle, ratio=ratio, chance=chance
            )
        return MetricReading(
            verdict=Verdict.SKIP,
            median=middle,
            ratio=ratio,
            chance=chance,
            why=(
                f"{ratio:.2f} times the good end, which may be chance "
                f"(p = {chance:.2g} after {len(samples)} samples)"
            ),
        )

    def _counted(self, samples: Sequence[float], middle: float, ratio: float) -> MetricReading:
        """Judges a counter, normally equal on every run; if it varies, all runs must agree on the verdict."""
        base = median(self.good)
        verdicts = {_ratio(value, base) >= self.worse_by for value in samples}
        if len(verdicts) > 1:
            seen = f"{min(samples):g} to {max(samples):g}"
            return MetricReading(
                verdict=Verdict.SKIP, median=middle, ratio=ratio, why=f"the count varies: {seen}"
            )
        return MetricReading(
            verdict=Verdict.BAD if verdicts.pop() else Verdict.GOOD, median=middle, ratio=ratio
        )


def _ratio(value: float, base: float) -> float:
    """Returns ``value / base``; infinite for a positive value over 0, and 1 for 0 over 0."""
    if base == 0:
        return math.inf if value > 0 else 1.0
    return value / base

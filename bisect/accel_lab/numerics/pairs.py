"""Pairs the values of two recordings, with a comparison and metrics for each pair."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .dtypes import Array, is_floating
from .metrics import Metrics, measure
from .recording import Entry, Key, Recording
from .records import compare_entries
from .thread_calls import aligned
from .tolerances import ComparisonConfig
from .values import Comparison, Measure


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One recorded value in both runs.

    ``metrics`` is None if the elements cannot be compared one to one. ``errors`` are the largest absolute
    errors of all runs, the first run first. ``reason`` is empty for values that agree. ``aliasing`` is set if
    an output shares memory with different values in the two runs (empty text: with none).
    """

    key: Key
    dtype: str = ""
    shape: tuple[int, ...] = ()
    comparison: Comparison
    metrics: Metrics | None = None
    errors: tuple[float, ...] = ()
    aliasing: tuple[str, str] | None = None

    @property
    def reason(self) -> str:
        return "" if self.comparison.same else self.comparison.reason

    @property
    def place(self) -> str:
        """The position as text, such as ``region call 0 output out[0]``."""
        name, turn, call, phase, path = self.key
        again = f"#{turn}" if turn else ""
        name = name.rpartition(".")[2]
        return f"{name}{again} {f'call {call} ' if call >= 0 else ''}{phase} {path}".strip()

    def to_json(self) -> dict[str, Any]:
        name, turn, call, phase, path = self.key
        several = len(self.errors) > 1
        return {
            "region": name,
            "turn": turn,
            "call": call if call >= 0 else None,
            "phase": phase,
            "path": path,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "same": self.comparison.same,
            "reason": self.comparison.reason,
            "stride_differs": self.comparison.stride_differs,
            "aliasing": None
            if self.aliasing is None
            else {"test": self.aliasing[0], "reference": self.aliasing[1]},
            "detail": self.comparison.detail,
            "error_vs_float64": self.comparison.error_vs_reference,
            "eager_error_vs_float64": self.comparison.eager_error_vs_reference,
            "metrics": None if self.metrics is None else self.metrics.to_json(),
            "runs": {"mean": statistics.fmean(self.errors), "variance": statistics.pvariance(self.errors)}
            if several
            else None,
        }


def pairs(
    got: Recording,
    want: Recording,
    config: ComparisonConfig | None = None,
    *,
    against_float64: bool = False,
    more: Sequence[Recording] = (),
) -> list[Pair]:
    """Returns a pair for every value that either run recorded, in the order of ``want``.

    ``against_float64`` computes the metrics against the float64 values in ``want``; a pair without them has
    no metrics. ``more`` are repetitions of the run ``got``, for mean and variance.
    """
    config = config or ComparisonConfig()
    more = [aligned(run, want)[0] for run in more]
    got, want = aligned(got, want)
    shared = Measure(magnitude=want.magnitude, half=want.half)
    keys = [*want.entries, *(key for key in got.entries if key not in want.entries)]
    pairs = []
    for key in keys:
        one, two = got.entries.get(key), want.entries.get(key)
        if one is None or two is None:
            pairs.append(_alone(key, one or two, missing=one is None))
        elif key[3] != "raised" or one.record.value != two.record.value:
            pairs.append(_pair(key, one, two, shared, config, against_float64))
    others = [run.entries for run in more]
    return [_repeated(pair, others, want, against_float64) for pair in pairs]


def arrays(got: Recording, want: Recording, key: Key, *, against_float64: bool) -> tuple[Array, Array] | None:
    """Returns the two arrays that a pair's metrics compare; None if there are none."""
    got, want = aligned(got, want)
    one, two = got.entries.get(key), want.entries.get(key)
    return None if one is None or two is None else _arrays(one, two, against_float64)


def _arrays(one: Entry, two: Entry, against_float64: bool) -> tuple[Array, Array] | None:
    a, b = one.record.data, two.reference if against_float64 else two.record.data
    if a is None or b is None or one.record.kind != "tensor":
        return None
    if b.shape != a.shape:
        if b.size != a.size:
            return None
        b = b.reshape(a.shape)
    return a, b


def _pair(
    key: Key, one: Entry, two: Entry, shared: Measure, config: ComparisonConfig, against_float64: bool
) -> Pair:
    result = compare_entries(one, two, shared, config)
    both = _arrays(one, two, against_float64)
    record = two.record
    metrics = measure(*both, record.dtype) if both is not None and record.dtype == one.record.dtype else None
    return Pair(
        key=key,
        dtype=record.dtype or record.type,
        shape=record.shape,
        comparison=result,
        metrics=metrics,
        errors=_greatest(metrics),
        aliasing=_aliasing(key, one, two),
    )


def _aliasing(key: Key, one: Entry, two: Entry) -> tuple[str, str] | None:
    """What an output shares memory with in each run, if that differs, else None."""
    tensors = one.record.kind == two.record.kind == "tensor" and key[3] == "output"
    shares = (one.record.shares, two.record.shares)
    return shares if tensors and shares[0] != shares[1] else None


def _alone(key: Key, entry: Entry | None, *, missing: bool) -> Pair:
    assert entry is not None
    reason = "missing" if missing else "extra"
    # A write of equal values, and state at the end of a run, depend on which objects a run keeps alive.
    same = entry.changed is False or key[2] < 0 or key[3] == "state"
    detail = f"{reason} in the tested run"
    record = entry.record
    return Pair(
        key=key,
        dtype=record.dtype or record.type,
        shape=record.shape,
        comparison=Comparison(same=same, reason=reason, detail=detail),
    )


def _repeated(pair: Pair, others: Sequence[dict[Key, Entry]], want: Recording, against_float64: bool) -> Pair:
    two = want.entries.get(pair.key)
    if not others or two is None or pair.metrics is None:
        return pair
    errors = list(pair.errors)
    for entries in others:
        one = entries.get(pair.key)
        both = None if one is None else _arrays(one, two, against_float64)
        if both is not None and both[0].shape == both[1].shape:
            errors += _greatest(measure(*both, pair.dtype))
    return replace(pair, errors=tuple(errors))


def _greatest(metrics: Metrics | None) -> tuple[float, ...]:
    return () if metrics is None or metrics.absolute.max is None else (metrics.absolute.max,)


def differing(pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yields the pairs that count as different."""
    return (pair for pair in pairs if not pair.comparison.same)


def by_error(pairs: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of floating-point values, largest RMS relative error first."""
    rated = [pair for pair in pairs if pair.metrics is not None and is_floating(pair.dtype)]
    return sorted(rated, key=lambda pair: -(pair.metrics.relative.rms or 0.0) if pair.metrics else 0.0)

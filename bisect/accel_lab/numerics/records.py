"""Compares the recordings of two runs: lists their differences, and measures how close the rest is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from accel_lab.core.findings import AgreedType, Agreement

from .comparison import compare
from .dtypes import is_floating
from .recording import Entry, Key, Recording
from .thread_calls import aligned
from .tolerances import ComparisonConfig
from .values import Comparison, Measure, Record

#: Python number types that are compared like tensors, with the dtype.
_NUMBERS = {"float": "float32", "complex": "complex64"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One value in which two runs differ; a ``note`` is reported but is not a failure."""

    region: str
    name: str
    call: int
    phase: str
    path: str
    comparison: Comparison
    note: bool = False

    @property
    def place(self) -> tuple[str, int, str, str]:
        return (self.region, self.call, self.phase, self.path)

    @property
    def line(self) -> str:
        """The difference as one line of text."""
        call = f" call {self.call}" if self.call >= 0 else ""
        return (
            f"{self.name}{call} {self.phase} {self.path}: {self.comparison.detail or self.comparison.reason}"
        )

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "comparison": self.comparison.to_json()}


def diff(
    got: Recording, want: Recording, config: ComparisonConfig | None = None, *, prefilter: bool = False
) -> list[Difference]:
    """Lists the differences of a run from the uncompiled run ``want``, which has the references.

    With ``prefilter``, lists values that may differ, so that a float64 run is needed to decide.

    The order is that in which the uncompiled run wrote its values, so the first difference is the earliest;
    notes come last. Calls that only one run has are one difference per region, and a call that raised in one
    run only is one difference.
    """
    config = config or ComparisonConfig()
    got, want = aligned(got, want)
    differences: list[Difference] = []
    ours, theirs = got.calls, want.calls
    reported: set[tuple[str, int, int]] = set()
    measure = Measure(magnitude=want.magnitude, half=want.half, prefilter=prefilter)
    for key in [*want.entries, *(key for key in got.entries if key not in want.entries)]:
        name, turn, call, _, _ = key
        one, two = ours.get((name, turn), []), theirs.get((name, turn), [])
        place = (name, turn, call)
        if place in reported:
            continue
        if call >= 0 and (call not in one or call not in two):
            lacking = sorted(set(one) ^ set(two))
            reported.update((name, turn, other) for other in lacking)
            differences.append(_missing_calls(key, lacking, got_lacks=call not in one))
            continue
        raised = _raised(got, want, place) if call >= 0 else None
        if raised is not None:
            reported.add(place)
            differences.append(raised)
            continue
        one_more = _difference(key, got.entries.get(key), want.entries.get(key), measure, config)
        if one_more is not None:
            differences.append(one_more)
    differences.sort(key=lambda difference: difference.note)
    return [*differences, *_random_state(got, want)]


def compare_entries(got: Entry, want: Entry, measure: Measure, config: ComparisonConfig) -> Comparison:
    """Compares two values with the same key, by the reference and spread of the uncompiled run."""
    measure = replace(measure, reference=want.reference, spread=want.spread)
    return compare(got.record, want.record, config=config, measure=measure)


def agreement(
    got: Recording, want: Recording, config: ComparisonConfig | None = None, *, prefilter: bool = False
) -> Agreement:
    """Measures how close the values of two runs are for which ``diff`` found no difference."""
    config = config or ComparisonConfig()
    got, want = aligned(got, want)
    measure = Measure(magnitude=want.magnitude, half=want.half, prefilter=prefilter)
    greatest: dict[str, list[float]] = {}
    others = 0
    for key in want.entries.keys() & got.entries.keys():
        one, two = got.entries[key], want.entries[key]
        dtype = two.record.dtype if two.record.kind == "tensor" else _NUMBERS.get(two.record.type, "")
        if not is_floating(dtype):
            others += two.record.kind in ("tensor", "value") and key[3] != "raised"
            continue
        relative = compare_entries(one, two, measure, config).relative
        greatest.setdefault(dtype, []).append(relative or 0.0)
    return Agreement(
        types=tuple(
            AgreedType(
                dtype=dtype,
                tensors=len(all_of),
                greatest=max(all_of),
                tolerance=config.prefilter(dtype) if prefilter else config.floor(dtype),
            )
            for dtype, all_of in sorted(greatest.items())
        ),
        others=others,
        factor=None if prefilter else config.factor,
    )


def eager_is_off(got: Recording, want: Recording, config: ComparisonConfig | None = None) -> bool:
    """Whether an uncompiled value is further from float64 than the compiled run's error explains.

    ``want`` is the uncompiled run with the references, ``got`` a compiled one.
    """
    config = config or ComparisonConfig()
    got, want = aligned(got, want)
    measure = Measure(magnitude=want.magnitude, half=want.half)
    pairs = ((got.entries[key], want.entries[key]) for key in want.entries.keys() & got.entries.keys())
    return any(
        not compare_entries(two, replace(two, record=one.record), measure, config).same
        for one, two in pairs
        if two.reference is not None
    )


def failures(differences: list[Difference]) -> list[Difference]:
    """Returns the differences that are not notes."""
    return [d for d in differences if not d.note]


def same_difference(one: list[Difference], two: list[Difference]) -> bool:
    """Whether two runs have the same difference from eager.

    The first differing value must be the same, with the same reason and an error within a factor of 100. At
    least half of all differing values must be shared with the same reason, as the consequences of one wrong
    value vary.
    """
    a, b = failures(one), failures(two)
    if not a or not b:
        return not a and not b
    if a[0].place != b[0].place or not _alike(a[0].comparison, b[0].comparison):
        return False
    left = {d.place: d.comparison for d in a}
    right = {d.place: d.comparison for d in b}
    shared = [p for p in left if p in right and left[p].reason == right[p].reason]
    return 2 * len(shared) >= len(left | right)


def _alike(a: Comparison, b: Comparison) -> bool:
    if a.reason != b.reason:
        return False
    one, two = a.max_abs_error, b.max_abs_error
    if one is None or two is None or one == two:
        return (one is None) == (two is None)
    if not (math.isfinite(one) and math.isfinite(two)):
        return not (math.isfinite(one) or math.isfinite(two))
    return max(one, two) <= 100 * min(one, two)


def _place(key: Key, comparison: Comparison, note: bool = False) -> Difference:
    name, turn, call, phase, path = key
    return Difference(
        region=f"{name}#{turn}",
        name=name,
        call=call,
        phase=phase,
        path=path,
        comparison=comparison,
        note=note,
    )


def _difference(
    key: Key, got: Entry | None, want: Entry | None, measure: Measure, config: ComparisonConfig
) -> Difference | None:
    """The difference at one key, if any."""
    if got is not None and want is not None:
        if key[3] == "raised":
            return None  # the same failure; messages may differ
        result = compare_entries(got, want, measure, config)
        return _place(key, result, note=result.same) if result.stride_differs or not result.same else None
    present = got or want
    if present is None or (key[3] == "mutated_input" and present.changed is False):
        return None  # overwritten with equal values
    reason = "missing" if got is None else "extra"
    # At the end of a run it only means that one run kept an object alive longer. State in a dictionary may be
    # under a key that differs in each run.
    end = key[2] < 0 or key[3] == "state"
    detail = f"{reason} in the compiled run"
    return _place(key, Comparison(same=end, reason=reason, detail=detail), note=end)


def _missing_calls(key: Key, calls: list[int], got_lacks: bool) -> Difference:
    reason = "missing" if got_lacks else "extra"
    count = f"{len(calls)} call{'s' if len(calls) > 1 else ''}"
    detail = f"{count} {reason} in the compiled run, from call {calls[0]} on"
    return _place(
        (key[0], key[1], calls[0], "call", ""), Comparison(same=False, reason=reason, detail=detail)
    )


def _raised(got: Recording, want: Recording, place: tuple[str, int, int]) -> Difference | None:
    """The difference of a call that raised in one run only, or raised different types of exceptions."""
    key = (*place, "raised", "raised")
    one, two = got.entries.get(key), want.entries.get(key)
    if one is None and two is None:
        return None
    if one is not None and two is not None and _same_exception(one.record, two.record):
        return None
    detail = f"{_ending(one)} instead of {_ending(two)}"[:300]
    return _place(key, Comparison(same=False, reason="raised", detail=detail))


def _same_exception(got: Record, want: Record) -> bool:
    """Whether a handler for eager's exception would catch the compiled run's exception as the same failure.

    Dynamo wraps an operator's exception in its TorchRuntimeError. Other exceptions of the compiler may derive
    from the same type but are different failures.
    """
    if got.type == want.type:
        return True
    compilers = got.type.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))
    wrapped = got.type.endswith(".TorchRuntimeError")
    return want.type in got.bases and (wrapped or not compilers)


def _ending(entry: Entry | None) -> str:
    return "returned" if entry is None else f"raised {entry.record.type}: {entry.record.value}"[:140]


def _random_state(got: Recording, want: Recording) -> list[Difference]:
    """A note if the final random states differ."""
    one, two = got.random_state, want.random_state
    changed = [name for name in sorted({*one, *two}) if one.get(name) != two.get(name)]
    if not (changed and one and two):
        return []
    detail = f"the random state at the end differs: {', '.join(changed)}"
    return [_place(("", 0, -1, "rng", ""), Comparison(same=True, detail=detail), note=True)]

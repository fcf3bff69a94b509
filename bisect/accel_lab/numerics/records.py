"""Recordings of whole runs: read from disk, laid side by side, and told where they part.

Events of two runs are aligned by the region's name and its turn among regions of that name, the call, the
phase and the path, so that neither numbering nor order of writing matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from accel_lab.core.findings import AgreedType, Agreement
from accel_lab.core.untrusted import records
from accel_lab.core.untrusted.child_files import ChildFiles

from .comparison import compare, number_of
from .dtypes import Array, decode, is_floating, item_bytes
from .tolerances import ComparisonConfig
from .values import Comparison, Measure, Record

#: The types of Python numbers that are compared as tensors are.
_NUMBERS = {"float": "float32", "complex": "complex64"}

#: Where an event belongs: region name, its turn, call (-1 for the end of the run), phase, path.
Key = tuple[str, int, int, str, str]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recorded value with its place.

    ``changed`` tells of an input that was written whether its values are known to differ; ``spread`` is how
    far random roundings moved the float64 values.
    """

    key: Key
    record: Record
    reference: Array | None = field(default=None, repr=False)
    spread: Array | None = field(default=None, repr=False)
    changed: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Recording:
    """All that one run left, in the order in which it was written.

    ``half`` says that the float64 run saw results in half types.
    """

    entries: dict[Key, Entry] = field(default_factory=dict)
    random_state: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    half: bool = False

    @property
    def calls(self) -> dict[tuple[str, int], list[int]]:
        """The calls of each region."""
        found: dict[tuple[str, int], list[int]] = {}
        for name, turn, call, _, _ in self.entries:
            if call >= 0:
                calls = found.setdefault((name, turn), [])
                if call not in calls:
                    calls.append(call)
        return found

    @property
    def magnitude(self) -> float:
        """The greatest finite number that the run recorded: its roundings are relative to it."""
        greatest = 0.0
        for entry in self.entries.values():
            for name in ("min", "max"):
                number = entry.record.stats.get(name)
                if number is not None and math.isfinite(number):
                    greatest = max(greatest, abs(number))
        return greatest


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One place where two runs part. A ``note`` is worth telling and no failure."""

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
        """One line for tables."""
        call = f" call {self.call}" if self.call >= 0 else ""
        return (
            f"{self.name}{call} {self.phase} {self.path}: {self.comparison.detail or self.comparison.reason}"
        )

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "comparison": self.comparison.to_json()}


def load(folder: str | Path) -> Recording:
    """Read ``records.jsonl`` and ``tensors.bin``; a line that a crash cut short ends the reading.

    Raises :class:`accel_lab.core.untrusted.child_files.Refused` for what cannot be read safely.
    """
    files = ChildFiles(folder)
    data: bytes | None = None
    entries: dict[Key, Entry] = {}
    notes: list[str] = []
    random_state: dict[str, str] = {}
    half = False
    turns = _Turns()
    for event in records.rows(files):
        data = records.values(files) if data is None else data
        kind = event.get("event")
        if kind == "note":
            notes.append(str(event.get("note", "")))
        elif kind == "half":
            half = True
        elif kind == "rng":
            random_state = dict(event.get("parts") or {"torch": event.get("sha256", "")})
        elif kind in ("call", "end"):
            entry = _entry(event, data, turns)
            entries.setdefault(entry.key, entry)
    return Recording(entries=entries, random_state=random_state, notes=tuple(notes), half=half)


def diff(
    got: Recording, want: Recording, config: ComparisonConfig | None = None, *, sieve: bool = False
) -> list[Difference]:
    """Where a run differs from the uncompiled one, which carries the references.

    With ``sieve``: where it may differ, so that references are worth asking for.

    In the order in which the uncompiled run wrote its values, so that the first difference is the earliest;
    notes come last. Calls that one run lacks are one difference for each region, a call that raised in one
    run only is one difference.
    """
    config = config or ComparisonConfig()
    found: list[Difference] = []
    ours, theirs = got.calls, want.calls
    told: set[tuple[str, int, int]] = set()
    measure = Measure(magnitude=want.magnitude, half=want.half, sieve=sieve)
    for key in [*want.entries, *(key for key in got.entries if key not in want.entries)]:
        name, turn, call, _, _ = key
        one, two = ours.get((name, turn), []), theirs.get((name, turn), [])
        place = (name, turn, call)
        if place in told:
            continue
        if call >= 0 and (call not in one or call not in two):
            lacking = sorted(set(one) ^ set(two))
            told.update((name, turn, other) for other in lacking)
            found.append(_missing_calls(key, lacking, got_lacks=call not in one))
            continue
        raised = _raised(got, want, place) if call >= 0 else None
        if raised is not None:
            told.add(place)
            found.append(raised)
            continue
        difference = _difference(key, got.entries.get(key), want.entries.get(key), measure, config)
        if difference is not None:
            found.append(difference)
    found.sort(key=lambda difference: difference.note)
    return [*found, *_random_state(got, want)]


def compare_entries(got: Entry, want: Entry, measure: Measure, config: ComparisonConfig) -> Comparison:
    """Compare two values of the same place by what the uncompiled run knows of them."""
    measure = replace(measure, reference=want.reference, spread=want.spread)
    return compare(got.record, want.record, config=config, measure=measure)


def agreement(
    got: Recording, want: Recording, config: ComparisonConfig | None = None, *, sieve: bool = False
) -> Agreement:
    """How near the values of two runs are that ``diff`` found to agree."""
    config = config or ComparisonConfig()
    measure = Measure(magnitude=want.magnitude, half=want.half, sieve=sieve)
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
                tolerance=config.sieve(dtype) if sieve else config.floor(dtype),
            )
            for dtype, all_of in sorted(greatest.items())
        ),
        others=others,
        factor=None if sieve else config.factor,
    )


def failures(differences: list[Difference]) -> list[Difference]:
    """The differences that count."""
    return [d for d in differences if not d.note]


def same_difference(one: list[Difference], two: list[Difference]) -> bool:
    """Whether two runs differ from eager in the same places and in the same way.

    The first place must be the same, with the same reason and an error of the same order (a factor of 100
    either way); of all places at least half must be shared: what follows from one wrong value varies.
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


class _Turns:
    """Numbers the regions of one name in the order of their first events."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Any]] = {}

    def of(self, name: str, region: Any) -> int:
        regions = self._seen.setdefault(name, [])
        if region not in regions:
            regions.append(region)
        return regions.index(region)


def _entry(event: dict[str, Any], data: bytes, turns: _Turns) -> Entry:
    name, phase = str(event.get("name", "")), str(event.get("phase", ""))
    path = str(event.get("path", ""))
    if event["event"] == "call":
        turn, call = turns.of(name, event.get("region")), int(event.get("call", 0))
    elif phase in ("leaf_grad", "input_grad"):
        turn, call = turns.of(name, event.get("region")), -1
        path = f"call {event.get('call', 0)} {path}"
    else:
        turn, call = turns.of(f"module {name}", event.get("module")), -1
    record = _record(event, data)
    reference, spread = _exact(event, data, record)
    return Entry(
        key=(name, turn, call, phase, path),
        record=record,
        reference=reference,
        spread=spread,
        changed=event.get("changed"),
    )


def _record(event: dict[str, Any], data: bytes) -> Record:
    shape = tuple(event.get("shape") or ())
    dtype = str(event.get("dtype", ""))
    sample = event.get("sample") or {}
    whole = "offset" in event
    offset = event.get("offset") if whole else sample.get("offset")
    size = event.get("nbytes") if whole else sample.get("nbytes")
    values = None
    if offset is not None and size is not None and offset + size <= len(data):
        count = size // (item_bytes(dtype) or 1)
        values = _decoded(data[offset : offset + size], dtype, shape if whole else (count,))
    return Record(
        kind=str(event.get("kind", "object")),
        type=str(event.get("type", "")),
        dtype=dtype,
        shape=shape,
        stride=tuple(event.get("stride") or ()),
        sha256=str(event.get("sha256", "")),
        stats=event.get("stats") or {},
        value=event.get("value"),
        data=values,
        bases=tuple(event.get("bases") or ()),
        sample_step=None if whole or not sample else int(sample["step"]),
        note=str(event.get("note", "")),
    )


def _exact(event: dict[str, Any], data: bytes, record: Record) -> tuple[Array | None, Array | None]:
    """The float64 values of a record and their spread.

    float64 computed from float64 has a spread and no values of its own: eager's are the reference.
    """
    number = event.get("exact")
    if isinstance(number, dict):
        spread = number.get("spread")
        return np.asarray(number_of(number.get("value"))), None if spread is None else np.asarray(
            float(spread)
        )
    if record.data is None:
        return None, None
    reference, spread = (_beside(event.get(name), data, record.data) for name in ("ref", "spread"))
    if reference is None and spread is not None:
        reference = record.data
    return reference, spread


def _beside(where: Any, data: bytes, values: Array) -> Array | None:
    if not where or where["offset"] + where["length"] > len(data):
        return None
    raw = data[where["offset"] : where["offset"] + where["length"]]
    return _decoded(raw, where.get("dtype", "float64"), values.shape)


def _decoded(raw: bytes, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """The values, None where there are not as many as the shape says."""
    try:
        return decode(raw, dtype, shape)
    except ValueError:
        return None


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
    """What there is to say of one place."""
    if got is not None and want is not None:
        if key[3] == "raised":
            return None  # the same failure; messages may be worded otherwise
        result = compare_entries(got, want, measure, config)
        return _place(key, result, note=result.same) if result.stride_differs or not result.same else None
    present = got or want
    if present is None or (key[3] == "mutated_input" and present.changed is False):
        return None  # written with the values that it had before
    reason = "missing" if got is None else "extra"
    # At the end of a run it says only that one run kept an object alive longer than the other.
    end = key[2] < 0
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
    """A call that raised in one run only, or another type of exception in each."""
    key = (*place, "raised", "raised")
    one, two = got.entries.get(key), want.entries.get(key)
    if one is None and two is None:
        return None
    if one is not None and two is not None and _same_exception(one.record, two.record):
        return None
    detail = f"{_deed(one)} instead of {_deed(two)}"[:300]
    return _place(key, Comparison(same=False, reason="raised", detail=detail))


def _same_exception(got: Record, want: Record) -> bool:
    """Whether a handler of eager's exception would have caught the compiled one as the same failure.

    Dynamo raises what an operator raised as its own TorchRuntimeError; other exceptions of the compiler may
    derive from the same type and are failures of their own.
    """
    if got.type == want.type:
        return True
    compilers = got.type.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))
    wrapped = got.type.endswith(".TorchRuntimeError")
    return want.type in got.bases and (wrapped or not compilers)


def _deed(entry: Entry | None) -> str:
    return "returned" if entry is None else f"raised {entry.record.type}: {entry.record.value}"[:140]


def _random_state(got: Recording, want: Recording) -> list[Difference]:
    """A note when the generators ended elsewhere."""
    one, two = got.random_state, want.random_state
    changed = [name for name in sorted({*one, *two}) if one.get(name) != two.get(name)]
    if not (changed and one and two):
        return []
    detail = f"the random state at the end differs: {', '.join(changed)}"
    return [_place(("", 0, -1, "rng", ""), Comparison(same=True, detail=detail), note=True)]

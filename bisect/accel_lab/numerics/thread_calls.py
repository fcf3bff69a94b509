"""Matches the calls of two recordings by their inputs if several threads call a region.

The calls of a region are numbered in the order in which they begin. With several threads that order varies,
so two runs of a script may number the same call differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from .recording import Entry, Key, Recording

_Region = tuple[str, int]
#: Identifies a call in both runs: the digest of its inputs, and its number among calls with equal inputs.
_Label = tuple[str, int]
#: Matches the start of the path of an input's gradient.
_OF_CALL = re.compile(r"call (\d+) ")


def aligned(got: Recording, want: Recording) -> tuple[Recording, Recording]:
    """Returns both recordings with the calls of ``got`` renumbered as in ``want``.

    Returns the same objects if no region was called by more than one thread. A call whose inputs occur in
    only one run is left out.
    """
    regions = _threaded(got) | _threaded(want)
    if not regions:
        return got, want
    ours, theirs = _labels(got, regions), _labels(want, regions)
    numbers = {(region, label): call for (region, call), label in theirs.items()}
    renumbered = {
        place: numbers[place[0], label] for place, label in ours.items() if (place[0], label) in numbers
    }
    kept = {(region, call): call for (region, _), call in renumbered.items()}
    return _numbered(got, regions, renumbered), _numbered(want, regions, kept)


def _threaded(recording: Recording) -> set[_Region]:
    """The regions that were called by more than one thread."""
    threads: dict[_Region, set[int]] = {}
    for (name, turn, call, _, _), entry in recording.entries.items():
        if call >= 0:
            threads.setdefault((name, turn), set()).add(entry.thread)
    return {region for region, callers in threads.items() if len(callers) > 1}


def _labels(recording: Recording, regions: Iterable[_Region]) -> dict[tuple[_Region, int], _Label]:
    inputs = {
        ((name, turn), call): entry.inputs
        for (name, turn, call, _, _), entry in recording.entries.items()
        if call >= 0 and (name, turn) in regions
    }
    turns: dict[tuple[_Region, str], int] = {}
    labels = {}
    for place in sorted(inputs):
        same = (place[0], inputs[place])
        labels[place] = (inputs[place], turns.setdefault(same, 0))
        turns[same] += 1
    return labels


def _numbered(
    recording: Recording, regions: set[_Region], numbers: dict[tuple[_Region, int], int]
) -> Recording:
    """The recording with the calls of ``regions`` renumbered; a call without a new number is left out."""
    entries: dict[Key, Entry] = {}
    for key, entry in recording.entries.items():
        name, turn, call, phase, path = key
        of_call = None if call >= 0 else _OF_CALL.match(path)
        if (name, turn) not in regions or (call < 0 and of_call is None):
            entries[key] = entry
            continue
        number = numbers.get(((name, turn), int(of_call[1]) if of_call is not None else call))
        if number is None:
            continue
        if of_call is not None:
            key = (name, turn, call, phase, f"call {number} {path[of_call.end() :]}")
        else:
            key = (name, turn, number, phase, path)
        entries[key] = replace(entry, key=key)
    return replace(recording, entries=entries)

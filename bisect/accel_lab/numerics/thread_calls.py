"""Two recordings whose regions are called by several threads: calls belong together by their inputs.

The calls of a region are numbered as they begin. Between threads that order is chance, so two runs of one
script number the same call differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from .recording import Entry, Key, Recording

_Region = tuple[str, int]
#: A call of one region as both runs know it: the digest of its inputs, and its turn among equal ones.
_Label = tuple[str, int]
#: How the path of a gradient begins that belongs to an input of a call.
_OF_CALL = re.compile(r"call (\d+) ")


def aligned(got: Recording, want: Recording) -> tuple[Recording, Recording]:
    """Both recordings with the calls of ``got`` numbered as in ``want``.

    They are the same objects where no region was called by more than one thread. Calls that only one of
    the runs made with these inputs are left out of both: what belongs to them in the other is unknown.
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
    """The regions that more than one thread called."""
    threads: dict[_Region, set[int]] = {}
    for (name, turn, call, _, _), entry in recording.entries.items():
        if call >= 0:
            threads.setdefault((name, turn), set()).add(entry.thread)
    return {region for region, callers in threads.items() if len(callers) > 1}


def _labels(recording: Recording, regions: Iterable[_Region]) -> dict[tuple[_Region, int], _Label]:
    """The label of each call of these regions."""
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
    """The recording with other numbers for the calls of ``regions``, and without those that have none."""
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

"""Reads the verdicts along a line of releases: every flip, what blurs it, and how certain it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from accel_lab.core.releases.versions import Flip, Tested, Versions
from accel_lab.core.verdict import Verdict

from .plan import JUDGED

#: Maximum releases named one by one in a note; more are counted.
_NAMED = 4


def read_line(
    line: Sequence[str],
    tested: Iterable[Tested],
    *,
    complete: bool = True,
    why: str = "",
    what: str = "the failure",
) -> Versions:
    """Reads the verdicts of a line, oldest release first; releases off the line are left out.

    ``what`` is what a bad release has, for the notes.
    """
    known = {row.torch: row for row in tested}
    rows = tuple(known[version] for version in line if version in known)
    judged = [row for row in rows if row.verdict in JUDGED]
    flips = _flips(line, known, judged)
    return Versions(
        tested=rows,
        flips=flips,
        line=tuple(line),
        complete=complete,
        why=why,
        notes=tuple(_notes(line, known, judged, flips, what)),
        confidence=chance_right(judged),
    )


def chance_right(rows: Iterable[Tested]) -> float | None:
    """Returns the chance that all these verdicts are right; None if none of them was in doubt."""
    errors = [row.error for row in rows if row.verdict in JUDGED]
    if not any(error > 0 for error in errors):
        return None
    return round(math.prod(1.0 - min(1.0, error) for error in errors), 6)


def _flips(line: Sequence[str], known: Mapping[str, Tested], judged: Sequence[Tested]) -> tuple[Flip, ...]:
    places = {version: place for place, version in enumerate(line)}
    flips: list[Flip] = []
    was_bad = False
    for before, at in pairwise(judged):
        was_bad = was_bad or before.verdict is Verdict.BAD
        if before.verdict is at.verdict:
            continue
        between = tuple(line[places[before.torch] + 1 : places[at.torch]])
        kind = "fixed" if at.verdict is Verdict.GOOD else "broken_again" if was_bad else "introduced"
        flips.append(
            Flip(
                after=before.torch,
                at=at.torch,
                kind=kind,
                between=between,
                confidence=chance_right((before, at)),
                notes=tuple(_blur(between, known)),
            )
        )
    return tuple(flips)


def _blur(between: Sequence[str], known: Mapping[str, Tested]) -> list[str]:
    """Says why each release inside a flip does not narrow it."""
    notes = [_skip(known[version]) for version in between if version in known]
    unasked = [version for version in between if version not in known]
    return [*notes, f"not run: {_list(unasked)}"] if unasked else notes


def _skip(row: Tested) -> str:
    if row.verdict is Verdict.DIFFERENT:
        answered = row.signature or row.why
        return f"{row.torch} fails in another way" + (f": {answered}" if answered else "")
    return f"{row.torch} cannot be judged" + (f": {row.why}" if row.why else "")


def _notes(
    line: Sequence[str],
    known: Mapping[str, Tested],
    judged: Sequence[Tested],
    flips: Sequence[Flip],
    what: str,
) -> list[str]:
    if not judged:
        asked = [row.torch for row in known.values()]
        return [f"none of the {len(line)} releases of the line could be judged"] if asked else []
    notes = []
    first, last = judged[0], judged[-1]
    if not flips:
        notes.append(_one_answer(line, judged, what))
    elif first.verdict is Verdict.BAD:
        notes.append(f"{first.torch}, the first release that can be judged, has {what} already")
    notes += _ends(line, known, first, last)
    unseen = _unseen(line, judged)
    if unseen:
        notes.append(
            f"{unseen} of {len(line)} releases lie between two with the same answer and were not judged: "
            "a change that came and went among them is not seen"
        )
    return notes


def _one_answer(line: Sequence[str], judged: Sequence[Tested], what: str) -> str:
    """Describes a line without a flip."""
    count = len(judged)
    where = judged[0].torch if count == 1 else f"{judged[0].torch} to {judged[-1].torch}"
    if judged[0].verdict is Verdict.GOOD:
        return f"no release that was judged has {what} ({count} of {len(line)}: {where})"
    return (
        f"every release that was judged has {what} ({count} of {len(line)}: {where}): "
        f"the failure is older than the first release, or not caused by torch"
    )


def _ends(line: Sequence[str], known: Mapping[str, Tested], first: Tested, last: Tested) -> list[str]:
    """Describes releases outside the judged ones, about which nothing is known."""
    notes = []
    for outside, word in (
        (line[: line.index(first.torch)], "before"),
        (line[line.index(last.torch) + 1 :], "after"),
    ):
        answered = [known[version] for version in outside if version in known]
        if not answered:
            continue
        nearest = answered[-1] if word == "before" else answered[0]
        edge = first.torch if word == "before" else last.torch
        unasked = len(outside) - len(answered)
        notes.append(
            f"nothing is known {word} {edge}: {_skip(nearest)}"
            + (f"; {len(answered) - 1} more of them neither" if len(answered) > 1 else "")
            + (f"; {unasked} were not run" if unasked else "")
        )
    return notes


def _unseen(line: Sequence[str], judged: Sequence[Tested]) -> int:
    """Counts the unjudged releases between judged neighbours with the same verdict."""
    places = {version: place for place, version in enumerate(line)}
    return sum(
        places[two.torch] - places[one.torch] - 1
        for one, two in pairwise(judged)
        if one.verdict is two.verdict
    )


def _list(versions: Sequence[str]) -> str:
    if len(versions) <= _NAMED:
        return ", ".join(versions)
    return f"{versions[0]} to {versions[-1]} ({len(versions)} releases)"

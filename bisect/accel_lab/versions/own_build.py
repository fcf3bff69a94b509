"""Relates the user's own build to the line: if it passes and the releases fail, it is one side of a flip."""

from __future__ import annotations

import re
from dataclasses import replace

from accel_lab.core.releases.versions import OwnBuild, Versions
from accel_lab.core.verdict import Verdict


def with_own(versions: Versions, torch: str) -> Versions:
    """Adds the user's own build (release ``torch``), on which the script passes, to the line.

    It matters only if it is newer or older than all judged releases, and the nearest of them fails.
    """
    judged = [row for row in versions.tested if row.verdict in (Verdict.GOOD, Verdict.BAD)]
    if not judged or not torch or torch in versions.line or versions.metric:
        return versions
    first, last = judged[0], judged[-1]
    if last.verdict is Verdict.BAD and _order(torch) > _order(last.torch):
        relation, sentence = "fixed_by", f"fixed by {torch}, your own build (bad: {last.torch})"
    elif first.verdict is Verdict.BAD and _order(torch) < _order(first.torch):
        relation, sentence = "before", f"introduced after {torch}, your own build (bad: {first.torch})"
    else:
        return versions
    notes = versions.notes
    if not versions.flips and all(row.verdict is Verdict.BAD for row in judged):
        names = ", ".join(row.torch for row in judged)
        count = f"{len(judged)} of {len(versions.line)}"
        summary = f"every release that was judged has the failure ({count}: {names})"
        notes = (summary, *notes[1:])
    return replace(versions, notes=notes, own=OwnBuild(torch=torch, relation=relation, sentence=sentence))


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release)[:3])

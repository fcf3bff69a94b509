"""Binary-searches the graph-break position to find the line that Dynamo miscompiles.

Two runs decide: one ends the trace of the frame before a line, the other after it. What follows runs as plain
Python in both, so they differ only by that line.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .localization import Localization
from .question_budget import Questions, front_of


def localize_line(
    questions: Questions, observed: Step, key: str, *, left_out: Step, outer: Collection[str], **more: Any
) -> Localization | None:
    """Returns the line of function ``key`` that causes the failure; None if no single pair of runs shows it.

    ``outer`` are the functions that ``key`` is inlined into; left uncompiled, they give it a trace of its
    own. ``left_out`` is the passing run with ``key`` itself left uncompiled.
    """
    if outer:
        more["eager"] = sorted(outer)
        alone = questions.one({"look": True, **more})
        if alone is None or alone.verdict is not Verdict.BAD:
            return None
        observed = alone
    trace = (front_of(observed).get("lines") or {}).get(key)
    if not trace:
        return None
    segments, source = trace["segments"], trace["source"]
    # A trace ended at place 0 contains nothing; ended after the last segment, everything.
    good, bad, same, passing = 0, len(segments), True, left_out
    while bad - good > 1:
        middle = (good + bad) // 2
        step = questions.one({"stop": [key, middle], **more})
        if step is None or step.verdict is Verdict.SKIP:
            return None
        if step.verdict is Verdict.GOOD:
            good, passing = middle, step
        else:
            bad, same = middle, step.verdict is Verdict.BAD
    lines = sorted(segments[good])
    result = _localization(key, lines, source, same) if lines else None
    if result is not None and same:
        result.passing_run = passing
    return result


def _localization(key: str, lines: Sequence[int], source: Mapping[str, str], same: bool) -> Localization:
    """Builds the result; ``same``: with these lines traced it fails as the script does."""
    function, _, place = key.partition(" ")
    file = place.rpartition(":")[0].rpartition("/")[2]
    span = str(lines[0]) if len(lines) == 1 else f"{lines[0]}-{lines[-1]}"
    shown = next((text for line in lines if (text := source.get(str(line), "").strip())), "")
    every = sorted(map(int, source))
    return Localization(
        component=Component(
            kind="line",
            name=f"{file}:{span}",
            detail=shorten(f"{shown} in {function}", 300),
        ),
        evidence=[
            Evidence.of(
                EvidenceKind.TRACE_ENDED_AT_LINE,
                function=function,
                first=lines[0],
                last=lines[-1],
                source=shown,
                same=same,
            )
        ],
        exhibits=[
            Exhibit(
                kind="line",
                title=f"What Dynamo traced of {function}, from line {every[0]} to line {every[-1]}; marked: "
                "not traced, it passes",
                text="\n".join(source[str(line)] for line in every),
                language="python",
                marked=tuple(n for n, line in enumerate(every, 1) if lines[0] <= line <= lines[-1]),
            )
        ],
    )

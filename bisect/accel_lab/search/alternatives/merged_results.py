"""Two results of a graph that a pass makes one node: AOTAutograd could have to keep their aliases apart."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from accel_lab.core.findings import Considered
from accel_lab.core.stages import Stage

from .case import Alternative, Case, Moment, Ruling

NAME = "merged_results"
#: A line of a graph that makes a view.
_VIEW = re.compile(
    r"(?P<name>%\w+) .*= aten\.(?:view|alias|detach|expand|permute|slice|squeeze|unsqueeze|select|t|transpose"
    r"|as_strided|_reshape_alias|reshape|diagonal|unfold)\.\w+\((?P<of>%\w+)"
)


def ask(case: Case) -> Ruling:
    """Does the pass at fault return one node where the graph returned two?"""
    for before, after in case.localization.changes:
        if merged := merged_results(before, after):
            words = (
                f"outputs {merged} become one node: AOTAutograd may be at fault for not separating the "
                "aliases"
            )
            return Ruling(considered=Considered(name=NAME, open=True, words=words, component=True))
    words = "no two results of the graph become one node"
    return Ruling(considered=Considered(name=NAME, open=False, words=words))


def merged_results(before: Sequence[str], after: Sequence[str]) -> str:
    """Two results of a graph that are one afterwards, in words; empty where there are none."""
    old, new = _results(before), _results(after)
    if len(old) != len(new):
        return ""
    views = {frozenset((view["name"], view["of"])) for line in before if (view := _VIEW.match(line))}
    for one, two in itertools.combinations(range(len(old)), 2):
        pair = (old[one], old[two])
        if new[one] == new[two] != "None" and pair[0] != pair[1]:
            how = "a view and what it is a view of" if frozenset(pair) in views else "two results"
            return f"{pair[0]} and {pair[1]}, {how},"
    return ""


def _results(lines: Sequence[str]) -> list[str]:
    """The names in a graph's last line, ``return [%a, %b]``, in order."""
    last = lines[-1].strip() if lines else ""
    return re.findall(r"%\w+|\bNone\b", last) if last.startswith("return") else []


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#195664",  # a pass returns a detached twin and its source as one node
    stages=frozenset({Stage.FX_PASSES, Stage.DECOMPOSITION}),
    moment=Moment.COMPONENT,
    applies=lambda case: bool(case.localization.changes),
    ask=ask,
)

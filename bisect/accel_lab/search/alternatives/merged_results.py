"""Alternative: a pass merges two graph outputs; AOTAutograd may be at fault for not separating aliases."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from accel_lab.core.evidence import Evidence, EvidenceKind
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
    """Checks whether the pass at fault returns one node for two outputs of the graph."""
    for before, after in case.localization.changes:
        if merged := merged_results(before, after):
            one, other, view = merged
            why = Evidence.of(EvidenceKind.OUTPUTS_MERGED, one=one, other=other, view=view)
            return Ruling(considered=Considered(name=NAME, open=True, why=why, component=True))
    why = Evidence.of(EvidenceKind.NO_OUTPUTS_MERGED)
    return Ruling(considered=Considered(name=NAME, open=False, why=why))


def merged_results(before: Sequence[str], after: Sequence[str]) -> tuple[str, str, bool] | None:
    """Returns two outputs that are one node afterwards, and whether one is a view of the other; or None."""
    old, new = _results(before), _results(after)
    if len(old) != len(new):
        return None
    views = {frozenset((view["name"], view["of"])) for line in before if (view := _VIEW.match(line))}
    for one, two in itertools.combinations(range(len(old)), 2):
        pair = (old[one], old[two])
        if new[one] == new[two] != "None" and pair[0] != pair[1]:
            return (*pair, frozenset(pair) in views)
    return None


def _results(lines: Sequence[str]) -> list[str]:
    """Returns the names in a graph's last line, ``return [%a, %b]``, in order."""
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

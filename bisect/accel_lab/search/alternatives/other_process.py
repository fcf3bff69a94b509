"""Alternative: torch.compile runs in a process that the script starts, so it seems to fail uncompiled.

The rungs change the script's process and its forks, but not a new interpreter that it starts. The variable
TORCHDYNAMO_DISABLE turns torch.compile off in all of them. If that makes the failure disappear, the ladder
runs once more with the rungs in those processes (``child/processes``).
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import Switches

from .case import Alternative, Case, Moment, Ruling

NAME = "other_process"
#: Switches that set the variable which the script's processes inherit.
DISABLED: Switches = (("disable_everywhere", True),)
#: Held in every later question.
IN_PROCESSES: Switches = (("other_processes", True),)
OUTSIDE = (
    "torch.compile runs in another process that the script starts; with TORCHDYNAMO_DISABLE=1 in the "
    "environment the script passes"
)


def ask(case: Case) -> Ruling:
    """Tests whether the script passes with torch.compile off in the processes that it starts, too."""
    runner = case.runner
    step = runner.one(Rung.UNCOMPILED, DISABLED, NAME)
    if step.verdict is Verdict.GOOD:
        step = runner.repeat(step, 1, NAME)
    if step.verdict is Verdict.GOOD:
        return Ruling(outside=OUTSIDE, held=IN_PROCESSES)
    why = Evidence.of(EvidenceKind.FAILS_DISABLED_EVERYWHERE)
    ruled_out = Considered(name=NAME, open=False, why=why)
    return Ruling(considered=ruled_out if step.verdict is Verdict.BAD else None)


def _applies(case: Case) -> bool:
    ruled_out = any(
        one.why.kind is EvidenceKind.FAILS_DISABLED_EVERYWHERE and not one.open for one in case.considered
    )
    return case.fails_uncompiled and not ruled_out and not set(IN_PROCESSES) <= set(case.runner.held)


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#187319",  # two processes that share a cache, started by a script
    stages=frozenset({Stage.EAGER}),
    moment=Moment.STAGE,
    applies=_applies,
    ask=ask,
)

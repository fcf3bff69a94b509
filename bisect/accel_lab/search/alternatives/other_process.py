"""torch.compile in a process that the script starts: the script seems to fail alone.

The rungs change the process that runs the script, and those that it forks. An interpreter that it starts anew
compiles as it likes. torch's own variable turns torch.compile off in all of them. Where that cures it, the
ladder is asked once more with the rungs in those processes (``child/processes``).
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import Switches

from .case import Alternative, Case, Moment, Ruling

NAME = "other_process"
#: The variable that the processes of the script inherit.
DISABLED: Switches = (("disable_everywhere", True),)
#: Held in every question from then on.
IN_PROCESSES: Switches = (("other_processes", True),)
OUTSIDE = (
    "torch.compile runs in another process that the script starts; with TORCHDYNAMO_DISABLE=1 in the "
    "environment the script passes"
)


def ask(case: Case) -> Ruling:
    """Does it pass with torch.compile turned off in the processes that it starts, too?"""
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
    return case.fails_uncompiled and not set(IN_PROCESSES) <= set(case.runner.held)


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#187319",  # two processes that share a cache, started by a script
    stages=frozenset({Stage.EAGER}),
    moment=Moment.STAGE,
    applies=_applies,
    ask=ask,
)

"""Alternative: only the lab's own runs of the script fail uncompiled.

What a script replaces for its whole process (``open``, an import hook, a limit) can break the lab's part of a
run. Plain Python with TORCHDYNAMO_DISABLE=1 runs none of the lab. If it passes, the script is not at fault.
"""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict

from .case import NOTHING, Alternative, Case, Moment, Ruling
from .other_process import DISABLED, IN_PROCESSES

NAME = "plain_uncompiled"


def ask(case: Case) -> Ruling:
    """Tests whether plain Python passes with torch.compile turned off by its variable."""
    runner = replace(case.runner, probe=replace(case.runner.probe, bare=True, cold=True))
    step = runner.one(Rung.UNCOMPILED, DISABLED, NAME)
    if step.verdict is Verdict.GOOD:
        step = runner.repeat(step, 1, NAME)
    if step.verdict is Verdict.BAD:
        why = Evidence.of(EvidenceKind.FAILS_DISABLED_EVERYWHERE)
        return Ruling(considered=Considered(name=NAME, open=False, why=why))
    if step.verdict is not Verdict.GOOD:
        return NOTHING
    # In a process that the script starts torch.compile may run; the next alternative asks that.
    why = Evidence.of(EvidenceKind.PASSES_PLAIN_DISABLED)
    return Ruling(considered=Considered(name=NAME, open=True, why=why, limit=Confidence.INCONCLUSIVE))


def _applies(case: Case) -> bool:
    base, row = case.runner.baseline, case.row(Rung.UNCOMPILED)
    if row is None or base.flaky or set(IN_PROCESSES) <= set(case.runner.held):
        return False
    fails = row.verdict in (Verdict.BAD, Verdict.DIFFERENT)
    return fails and (base.target is None or base.target.kind not in ("timeout", "values"))


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#187319",  # a script that starts others: what a run of the lab changes must be told apart
    stages=frozenset({Stage.EAGER}),
    moment=Moment.STAGE,
    applies=_applies,
    ask=ask,
)

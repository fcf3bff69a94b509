"""Localizes the component of Dynamo, AOTAutograd or the partitioner.

These stages work on the script's code and on captured graphs, so code and operators can be left out:
functions that are not traced, operators that run outside AOTAutograd, settings. A component is proven only if
the failure disappears with it alone left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.findings import Step
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner

from . import aot_graphs, dynamo
from .localization import Localization
from .question_budget import Questions, from_frames

#: Rungs at which a question is cheap and these stages can be observed.
_RUNGS = (Rung.DYNAMO, Rung.AOT, Rung.PARTITION, Rung.DECOMP)

STAGES = (Stage.DYNAMO, Stage.AOT_AUTOGRAD, Stage.PARTITIONER)


def localize_front(runner: LadderRunner, stage: Stage, at: Step, ladder: Sequence[Step]) -> Localization:
    """Returns the component of one of :data:`STAGES`; ``at`` is the first failing step of the ladder."""
    raised_in = from_frames(at.outcome, stage)
    # A flaky failure would need many repeats per question, so only frames are used.
    if runner.baseline.flaky:
        return Localization(component=raised_in)
    if at.verdict is not Verdict.BAD:
        # If the first failing rung fails in another way, use the lowest rung that fails in the same way.
        at = next((s for s in ladder if s.verdict is Verdict.BAD and s.rung in _RUNGS), at)
        if at.verdict is not Verdict.BAD:
            return Localization(component=raised_in)
    questions = Questions(runner=runner, rung=at.rung)
    if stage is Stage.DYNAMO:
        return dynamo.localize(questions, at, raised_in)
    return aot_graphs.localize(questions, stage, at, raised_in)

"""A mode of torch's own that the captured graph leaves changed: whoever runs the graph twice meets it."""

from __future__ import annotations

from accel_lab.core.findings import Component, Considered, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.search.localize.dynamo import lost_state

from .case import Alternative, Case, Moment, Ruling

NAME = "changed_mode"


def ask(case: Case) -> Ruling:
    """Does what Dynamo captured leave torch's own modes as the script leaves them?"""
    observe = (("front", {"look": True}),)
    captured, plain = case.runner.ask([(Rung.DYNAMO, observe), (Rung.UNCOMPILED, observe)], "guard check")
    rows = [row for row in lost_state(captured, plain) if row[1].startswith("torch.")]
    if not rows:
        words = "the captured graph leaves torch's modes as the script does"
        return Ruling(considered=Considered(name=NAME, open=False, words=words))
    call, mode, want, got = rows[0]
    return Ruling(
        culprit=Culprit(
            stage=Stage.DYNAMO,
            confidence=Confidence.LIKELY,
            component=Component(
                kind="side_effect",
                name=mode,
                detail=shorten(
                    f"after call {call}: {want} uncompiled, {got} with the captured graph run as it is", 300
                ),
            ),
            evidence=(
                f"the graph that Dynamo captured leaves {mode} as {got}, the script as {want}; run once, "
                "as at "
                f"{Rung.DYNAMO}, that does no harm to this script, and {case.start} runs the graph more than "
                "once",
            ),
        )
    )


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#134030",  # a generator that leaves a mode changed in its finally
    stages=frozenset({Stage.AOT_AUTOGRAD}),
    moment=Moment.STAGE,
    applies=lambda case: case.start is Rung.AOT and not case.runner.baseline.flaky,
    ask=ask,
)

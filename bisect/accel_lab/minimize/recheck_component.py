"""Localizes the component again on the smallest program, and compares it with the whole script's.

Reduction preserves only the signature and the stage. Two faults of one stage may share both.
"""

from __future__ import annotations

from accel_lab.core.findings import Component, Culprit
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.lab import Lab
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.components import localize_component
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally

from .target import Target

#: Stages whose component is found by ablation, so that a second search is comparable.
_SEARCHED = frozenset(
    {Stage.DECOMPOSITION, Stage.FX_PASSES, Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL}
)


def worth_asking(culprit: Culprit | None, target: Target) -> bool:
    """Whether the component was proven on the whole script and can be searched on a smaller one."""
    return (
        culprit is not None
        and culprit.stage in _SEARCHED
        and culprit.component is not None
        and culprit.component.confidence is Confidence.PROVEN
        and target.attempts == 1
        and target.signature.kind != "values"
    )


def component_of(lab: Lab, probe: Probe, target: Target, stage: Stage) -> Component | None:
    """Returns the proven component of the program of ``probe``, or None."""
    base = Baseline(target=target.signature, tally=Tally(runs=2, failures=2))
    runner = LadderRunner(lab=lab, probe=probe, baseline=base)
    at = runner.one(target.bad, (), "component again")
    if at.verdict is not Verdict.BAD:
        return None
    component = localize_component(runner, stage, at, ladder=(at,)).component
    return component if component is not None and component.confidence is Confidence.PROVEN else None


def same(one: Component, two: Component) -> bool:
    """Whether two components share a name."""
    names = [{name.strip() for name in component.name.split(",")} for component in (one, two)]
    return bool(names[0] & names[1])

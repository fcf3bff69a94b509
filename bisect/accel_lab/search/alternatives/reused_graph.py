"""Alternative: a graph is reused where it does not fit (missed guard or wrong generalisation)."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Culprit
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.localize import dynamo_guards
from accel_lab.search.localize.localization import Localization
from accel_lab.search.proof import prove_component

from . import baked_attribute
from .case import Alternative, Case, Moment, Ruling

NAME = "reused_graph"


def ask(case: Case) -> Ruling:
    """Tests whether the script passes when every call recompiles, and whether a fresh capture differs."""
    runner, start = case.runner, case.start
    fresh = runner.one(start, (("fresh", True),), "guard check")
    if fresh.verdict is not Verdict.GOOD:
        ruled_out = Considered(name=NAME, open=False, why=Evidence.of(EvidenceKind.FAILS_RECOMPILED))
        return Ruling(considered=ruled_out if fresh.verdict is Verdict.BAD else None)
    graphs = fresh.outcome.facts.get("graph_texts") or []
    result = dynamo_guards.find_guard(runner, start) or Localization()
    baked = None
    if len(set(graphs)) < 2 and result.passing_run is None:
        # Seen on torch 2.5.1: a parameter's requires_grad toggled between two calls.
        baked = baked_attribute.localize_attribute(runner, start)
        result = baked or result
    if len(set(graphs)) < 2 and result.passing_run is None and baked is None:
        why = Evidence.of(EvidenceKind.PASSES_RECOMPILED)
        return Ruling(considered=Considered(name=NAME, open=True, why=why), warnings=(why,))
    part = result.component
    flaky: tuple[Evidence, ...] = ()
    if part is not None:
        comparisons = max(1, len(result.exhibits[0].rows) - 1) if result.exhibits else 1
        part, flaky = prove_component(runner, part, result.passing_run, case.at, comparisons=comparisons)
    culprit = Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=part
        or Component(kind="guard", name="reused graph", detail="a later call needs another graph"),
        evidence=(
            Evidence.of(EvidenceKind.GRAPH_REUSED, at=start, graphs_differ=len(set(graphs)) > 1),
            *result.evidence,
            *flaky,
        ),
        exhibits=tuple(result.exhibits),
    )
    return Ruling(culprit=culprit)


ALTERNATIVE = Alternative(
    name=NAME,
    issue="pytorch#139789",  # arguments that share memory on a later call only
    stages=frozenset({Stage.AOT_AUTOGRAD}),
    moment=Moment.STAGE,
    applies=lambda case: case.start is Rung.AOT,
    ask=ask,
)

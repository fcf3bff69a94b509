"""A graph that is used again where it does not fit: a missed guard, or a wrong generalisation."""

from __future__ import annotations

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
    """Does compiling every call afresh cure it, and does a fresh capture see another graph?"""
    runner, start = case.runner, case.start
    fresh = runner.one(start, (("fresh", True),), "guard check")
    if fresh.verdict is not Verdict.GOOD:
        words = (
            "it fails as well when every call is compiled afresh, so no graph that is used again is needed"
        )
        ruled_out = Considered(name=NAME, open=False, words=words)
        return Ruling(considered=ruled_out if fresh.verdict is Verdict.BAD else None)
    graphs = fresh.outcome.facts.get("graph_texts") or []
    result = dynamo_guards.find_guard(runner, start) or Localization()
    baked = None
    if len(set(graphs)) < 2 and result.passing_run is None:
        # A parameter's requires_grad that was toggled between two calls, on torch 2.5.1.
        baked = baked_attribute.localize_attribute(runner, start)
        result = baked or result
    if len(set(graphs)) < 2 and result.passing_run is None and baked is None:
        words = (
            "it passes when every call is compiled afresh, though each call captures the same graph: "
            "a guard may be missing, or what was compiled does not last"
        )
        return Ruling(considered=Considered(name=NAME, open=True, words=words), warnings=(words,))
    part, remark = result.component, ""
    if part is not None:
        comparisons = max(1, len(result.exhibits[0].rows) - 1) if result.exhibits else 1
        part, remark = prove_component(runner, part, result.passing_run, case.at, comparisons=comparisons)
    culprit = Culprit(
        stage=Stage.DYNAMO,
        confidence=Confidence.LIKELY,
        component=part
        or Component(kind="guard", name="reused graph", detail="a later call needs another graph"),
        evidence=(
            f"at {start} it passes when every call is compiled afresh"
            + (", and then the calls capture different graphs" if len(set(graphs)) > 1 else "")
            + ": a graph was used again that does not fit (a missed guard or a wrong generalisation)",
            *result.evidence,
            *([remark] if remark else []),
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

"""Localizes the operator at fault in the kernel stage, what it needs to fail, and its generated lines.

Every lowering can be replaced by a call of the operator's eager kernel. Two questions are asked: which must
be left out to fix the failure (necessity), and which alone suffices to fail, with all others left out
(sufficiency). An operator is ``proven`` if leaving out only it fixes the failure; if several do, as in a
chain fused into one kernel, sufficiency decides. If the failure needs two operations in one kernel, or one
buffer in another's memory, the scheduler's choices are searched in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Step
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.time_budget import Allowance
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner

from .ablation import Ablation, Item, minimal_fix_set
from .allowance import allowance_of, refusal
from .kernel_exhibit import show_kernel
from .localization import Localization

LOWERINGS, FUSIONS, REUSES = "lowerings", "fusions", "reuses"

#: Maximum questions to name the operator, and additional ones for the scheduler's choices.
MOST = 22
MOST_CHOICES = 12

#: Maximum independent faults, and maximum members of a set that are left out one by one.
MOST_FAULTS, MOST_MEMBERS = 3, 5

#: What the failure needs, by the switch that makes it disappear.
_ONLY_WITH = {
    "fusion": "only with fusion",
    "epilogue_fusion": "only with epilogue fusion",
    "vectorisation": "only with vectorisation",
    "loop_tail_vec": "only with vectorised loop tails",
    "inplace_buffers": "only with in-place buffers",
    "buffer_reuse": "only with reuse of buffers",
    "memory_planning": "only with memory planning",
    "memory_order": "only with kernels reordered for peak memory",
    "horizontal_fusion": "only with horizontal fusion",
    "loop_ordering": "only with loops reordered after fusion",
    "split_reductions": "only with split reductions",
    "layout": "only with layout changes",
    "padding": "only with padded strides",
    "precision_casts": "only with casts left out",
    "freezing": "only with freezing",
    "threads": "only with several threads",
    "strict_math": "only with relaxed floating-point rules",
}


@dataclass(kw_only=True)
class _Operators:
    """The lowerings that the failure needs.

    Each of ``sets`` fails with all others left out. Leaving out all of ``necessary`` fixes the failure, and
    so does leaving out any one of ``fixes``.
    """

    sets: list[list[Item]] = field(default_factory=list)
    necessary: list[Item] = field(default_factory=list)
    fixes: list[Item] = field(default_factory=list)


def localize_kernel(
    runner: LadderRunner,
    stage: Stage,
    at: Step,
    ablation: Sequence[Step],
    *,
    all_off: Verdict | None = None,
) -> Localization:
    """Returns the operator, fusion or buffer at fault in a stage of the kernel rung.

    ``at`` is the failing run; ``all_off`` is that rung's verdict with every lowering left out, if already
    known. The result is empty for a flaky failure, which would need many repeats per question.
    """
    if runner.baseline.flaky:
        return Localization()
    rung = Rung.LOOPS if stage is Stage.LOWERING else Rung.KERNEL
    observed = at.rung is rung and "applied" in at.outcome.facts
    at = at if observed else runner.one(rung, (), "component")
    applied = _applied(runner, at)
    gone = {step.switch for step in ablation if step.verdict is Verdict.GOOD}
    result = Localization()
    items_at_fault: list[Item] = []
    # If the whole bisection has a time limit, the search may use all that is left of it.
    bounded = runner.lab.time_budget.limit_s is not None
    allowance = Allowance(seconds=math.inf) if bounded else allowance_of(runner.baseline)
    if stage is not Stage.SCHEDULER:
        questions = Ablation(runner=runner, rung=rung, most=MOST, allowance=allowance)
        items = [(LOWERINGS, key) for key in applied.get(LOWERINGS) or ()]
        if all_off is not None:
            questions.known[frozenset(items)] = all_off
        operators = _operators(questions, items)
        if operators is not None:
            items_at_fault = _add_operators(result, questions, operators, len(items))
    if rung is Rung.KERNEL:
        _add_choice(runner, result, applied, gone, allowance)
    if allowance.refused:
        result.evidence.append(refusal(allowance))
        runner.lab.time_budget.note_unasked("more operators, fusions or buffers that may be at fault")
    if result.component is not None:
        result.component = replace(result.component, detail=_detail(result.component, gone))
    show_kernel(runner, result, items_at_fault, at)
    return result


def _applied(runner: LadderRunner, at: Step) -> Mapping[str, Sequence[str]]:
    """Returns what was applied; if the process died, what the loop interpreter applies to the same graph."""
    applied: Mapping[str, Sequence[str]] = at.outcome.facts.get("applied") or {}
    if not applied.get(LOWERINGS) and at.rung is Rung.KERNEL:
        inner = runner.one(Rung.LOOPS, (), "component")
        applied = {**applied, LOWERINGS: (inner.outcome.facts.get("applied") or {}).get(LOWERINGS) or ()}
    return applied


# -- operators ---------------------------------------------------------------------------------


def _operators(questions: Ablation, items: Sequence[Item]) -> _Operators | None:
    """Returns the operators; None if the failure remains with every lowering left out."""
    if not items or not questions.passes_without(items):
        return None
    operators = _Operators()
    left = list(items)
    while len(operators.sets) < MOST_FAULTS:
        kept = _sufficient(questions, items, left)
        if kept is None:
            break
        operators.sets.append(kept)
        operators.fixes += [item for item in kept[:MOST_MEMBERS] if questions.passes_without([item])]
        together = [item for one in operators.sets for item in one]
        if len(kept) > 1 or operators.fixes or questions.passes_without(together):
            operators.necessary = together if len(kept) == 1 else operators.fixes
            return operators
        left = [item for item in left if item not in kept]  # another fault hides behind this one
    if not operators.sets:
        operators.necessary = minimal_fix_set(items, questions.passes_without, MOST) or []
    return operators if operators.sets or len(operators.necessary) < len(items) else None


def _sufficient(questions: Ablation, items: Sequence[Item], among: Sequence[Item]) -> list[Item] | None:
    """Returns a smallest set that fails with all others of ``items`` left out; None if unknown.

    Halving finds the last needed item, then the first. Every returned set was tested, so the result does not
    assume that the failure is monotone.
    """

    def fails(kept: Sequence[Item]) -> bool:
        off = [item for item in items if item not in kept]
        return not off or questions.verdict(off) is Verdict.BAD

    if not fails(among):
        return None
    low, high = 0, len(among)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(among[:middle]) else (middle, high)
    prefix = list(among[:high])
    if fails(prefix[-1:]):
        return prefix[-1:]
    low, high = 0, len(prefix) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(prefix[middle:]) else (low, middle)
    window = prefix[low:]
    ends = [window[0], window[-1]]
    if fails(ends):
        return ends
    kept = minimal_fix_set(window, fails, MOST)
    return None if kept is None or questions.spent else kept


def _add_operators(
    result: Localization, questions: Ablation, operators: _Operators, total: int
) -> list[Item]:
    """Adds the component and its evidence to ``result``; returns the applications that it names."""
    sets, fixes = operators.sets, operators.fixes
    chosen = [item for one in sets for item in one]
    if sets and len(sets[-1]) > 1 and fixes:
        chosen = fixes
    chosen = chosen or operators.necessary
    alone = len({operator(key) for _, key in chosen}) == 1
    sole = alone and bool(sets) and bool(operators.necessary) and set(operators.necessary) <= set(chosen)
    result.component = Component(
        kind="op",
        name=_names(chosen),
        detail="node " + shorten(", ".join(dict.fromkeys(_node(key) for _, key in chosen)), 120),
    )
    result.passing_run = questions.passing(fixes[:1] or operators.necessary) if sole else None
    if len(fixes) > 1:
        eager = Evidence.of(
            EvidenceKind.ONE_OPERATOR_EAGER, operators=_operators_of(fixes), nodes=_nodes_of(fixes)
        )
        result.evidence.append(eager)
    elif operators.necessary:
        eager = Evidence.of(
            EvidenceKind.OPERATORS_EAGER,
            operators=_operators_of(operators.necessary),
            nodes=_nodes_of(operators.necessary),
        )
        result.evidence.append(eager)
    for kept in (one for one in sets if len(one) < total):
        lowered = Evidence.of(
            EvidenceKind.ONLY_OPERATORS_LOWERED, operators=_operators_of(kept), nodes=_nodes_of(kept)
        )
        result.evidence.append(lowered)
    return list(chosen)


def _operators_of(items: Sequence[Item]) -> list[str]:
    return [_operator(key) for _, key in items]


def _nodes_of(items: Sequence[Item]) -> list[str]:
    return [_node(key) for _, key in items]


def _names(items: Sequence[Item]) -> str:
    return shorten(", ".join(dict.fromkeys(operator(key) for _, key in items)), 120)


def operator(key: str) -> str:
    """Returns the operator in ``NODE target=OPERATOR#TURN``."""
    return shorten(_operator(key), 120)


def _operator(key: str) -> str:
    return bare(key).split("target=", 1)[-1]


def _node(key: str) -> str:
    return bare(key).split(" target=", 1)[0]


# -- the scheduler's choices -------------------------------------------------------------------

#: The subsystem, the switches that show that it matters, the component's kind.
_CHOICES: tuple[tuple[str, frozenset[str], str], ...] = (
    (FUSIONS, frozenset({"fusion", "horizontal_fusion"}), "fusion"),
    (REUSES, frozenset({"inplace_buffers", "buffer_reuse", "memory_planning"}), "reuse"),
)


def _add_choice(
    runner: LadderRunner,
    result: Localization,
    applied: Mapping[str, Sequence[str]],
    gone: set[str],
    allowance: Allowance,
) -> None:
    """Adds the fusion or buffer reuse without which the failure disappears."""
    for group, switches, kind in _CHOICES:
        items = [(group, key) for key in applied.get(group) or ()]
        if not items or not gone & switches:
            continue
        questions = Ablation(runner=runner, rung=Rung.KERNEL, most=MOST_CHOICES, allowance=allowance)
        fix_set = minimal_fix_set(items, questions.passes_without, MOST_CHOICES)
        if fix_set is None or questions.verdict(fix_set) is not Verdict.GOOD:
            continue
        names = list(dict.fromkeys(bare(key) for _, key in fix_set))
        result.evidence.append(
            Evidence.of(EvidenceKind.FUSION_LEFT_OUT, fusions=names)
            if group == FUSIONS
            else Evidence.of(EvidenceKind.REUSE_LEFT_OUT, reuses=names)
        )
        sole = len(names) == 1
        if result.component is None or (sole and result.passing_run is None):
            places = ", ".join(key.rsplit(":", 1)[-1].replace("+", " and ") for _, key in fix_set[:6])
            result.component = Component(
                kind=kind,
                name=shorten(", ".join(names), 120),
                detail=f"{'the scheduler nodes' if group == FUSIONS else 'buffer'} {places}",
            )
            result.passing_run = questions.passing(fix_set) if sole else None
        return


def _detail(component: Component, gone: set[str]) -> str:
    needs = [words for switch, words in _ONLY_WITH.items() if switch in gone]
    return shorten("; ".join([component.detail, *needs]), 300)


def bare(key: str) -> str:
    """Returns the name without its turn number."""
    return key.rsplit("#", 1)[0]

"""Localizes the pass, pattern or decomposition at fault, down to the single application.

The child records what was applied and what changed a graph, as a tree: a pattern is applied inside a pass.
The search descends that tree. At each level every kind is left out alone; one whose absence fixes the failure
is opened next, and at the bottom the single applications are separated. Such a kind is necessary; a last run
leaves out everything else, which shows whether it is also sufficient.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner

from .ablation import Ablation, Item, as_switch, minimal_fix_set
from .applications import Application, Kind, Tree, name_of
from .localization import Localization
from .pass_words import application_words, graph_change, place_words, short_words

_RUNGS = {Stage.DECOMPOSITION: Rung.DECOMP, Stage.FX_PASSES: Rung.FX}
_SUBSYSTEMS = {
    Stage.DECOMPOSITION: ("decomposition",),
    Stage.FX_PASSES: (
        "pre_grad_passes",
        "joint_graph_passes",
        "post_grad_passes",
        "passes",
        "pass_functions",
        "patterns",
        "reinplacing",
    ),
}
#: Maximum kinds that are each left out alone; more are halved first.
_SIDE_BY_SIDE = 16
_MOST_QUESTIONS = 34
_SHOWN = 3
#: Maximum turns of one pattern that raises repeatedly.
_MOST_TURNS = 8


@dataclass(frozen=True, kw_only=True)
class FixSet:
    """A set whose absence fixes the failure: ``kinds`` together, or each of ``others`` alone.

    ``stand_ins`` are redundant passes among the kinds: active only once the first one is disabled. ``alone``
    says that every kind of the level was left out alone, so that no rival was missed.
    """

    kinds: tuple[Kind, ...]
    others: tuple[Kind, ...] = ()
    stand_ins: tuple[Kind, ...] = ()
    alone: bool = False


@dataclass(kw_only=True)
class _Search(Ablation):
    """The questions, and the tree of applications; after a ``hanging`` run only their names are known."""

    tree: Tree
    hanging: bool = False


def localize_pass(
    runner: LadderRunner, stage: Stage, at: Step, *, all_off: Verdict | None = None
) -> Localization:
    """Returns the pass, pattern or decomposition at fault; empty if switching finds none.

    ``all_off`` is the verdict with everything left out, if known: if that still fails, no smaller set can fix
    it.
    """
    if runner.baseline.flaky or all_off not in (None, Verdict.GOOD):
        return Localization()
    rung = _RUNGS[stage]
    if at.rung is not rung or ("applied" not in at.outcome.facts and at.outcome.status is not Status.TIMEOUT):
        at = runner.one(rung, (), "component")
    if at.verdict not in (Verdict.BAD, Verdict.DIFFERENT):
        return Localization()
    tree = Tree.of(at.outcome)
    hanging = not tree.applications
    if hanging:
        # A killed run is inconclusive; a run with everything left out lists what there is.
        everything = dict.fromkeys(_SUBSYSTEMS[stage], "all")
        listing = runner.one(rung, (("off", everything),), "component")
        tree = Tree.of(listing.outcome, suspects=_functions_on_stack(at.outcome))
    search = _Search(runner=runner, rung=rung, most=_MOST_QUESTIONS, tree=tree, hanging=hanging)
    fix_set, path = _down(search)
    fix_set = fix_set or _raising(search, at.outcome)
    if fix_set is None:
        return Localization()
    items = _turns(search, fix_set)
    return _localization(search, stage, at, fix_set, items, path)


def _functions_on_stack(outcome: Outcome) -> frozenset[str]:
    return frozenset(frame.function for frame in outcome.raised.frames) if outcome.raised else frozenset()


# -- going down -------------------------------------------------------------------------------------


def _down(search: _Search) -> tuple[FixSet | None, list[FixSet]]:
    """Returns the deepest level found, and the levels above it."""
    fix_set = _level(search, search.tree.kinds(search.tree.tops()))
    if fix_set is None and not search.hanging:
        # An application that changed no node may still have changed a node's metadata.
        fix_set = _level(search, search.tree.kinds(search.tree.tops(all_of_them=True)), only_halving=True)
    path: list[FixSet] = []
    while fix_set is not None and len(fix_set.kinds) == 1 and not search.spent:
        inside = search.tree.kinds(search.tree.inside(fix_set.kinds[0]))
        deeper = _level(search, inside) if inside else None
        if deeper is None:
            break
        path.append(fix_set)
        fix_set = deeper
    return fix_set, path


def _raising(search: _Search, outcome: Outcome) -> FixSet | None:
    """Returns the innermost application that raised, with those of its name that raise once it is left out.

    A pattern may belong to several passes; without one of them the next one applies it (pytorch#183988).
    """
    found: list[Application] = []
    while len(found) < _MOST_TURNS and not search.spent:
        applications = Tree.of(outcome).applications
        innermost = next((a for a in reversed(applications) if a.raised), None)  # a parent is recorded first
        if innermost is None or any(
            (a.subsystem, a.name) != (innermost.subsystem, innermost.name) for a in found
        ):
            return None
        found.append(innermost)
        items = tuple(a.item for a in found)
        search.tree.learn(a for a in applications if not search.tree.has(a.item))
        if search.passes_without(items):
            return FixSet(kinds=(Kind(subsystem=innermost.subsystem, name=innermost.name, items=items),))
        step = search.steps.get(frozenset(items))
        if step is None:
            return None
        outcome = step.outcome
    return None


def _level(search: _Search, kinds: Sequence[Kind], only_halving: bool = False) -> FixSet | None:
    """Returns the kinds of one level whose absence fixes the failure: one alone, or the fewest together."""
    if not kinds:
        return None
    usable = list(kinds)
    if not search.hanging and not only_halving and len(kinds) <= _SIDE_BY_SIDE:
        verdicts = search.ask([kind.items for kind in kinds])
        fixes = [kind for kind, verdict in zip(kinds, verdicts, strict=True) if verdict is Verdict.GOOD]
        if fixes:
            # Names the last one in order: with only it left out, what ran before it did no harm.
            return FixSet(kinds=(fixes[-1],), others=tuple(fixes[:-1]), alone=True)
        # Without an indispensable pass the run fails in another way, so such passes stay in.
        usable = [kind for kind, verdict in zip(kinds, verdicts, strict=True) if verdict is Verdict.BAD]
        stepped_in = _with_stand_ins(search, usable)
        if stepped_in is not None:
            return stepped_in
        if len(usable) < 2:
            return None
    return _together(search, usable)


def _with_stand_ins(search: _Search, kinds: Sequence[Kind]) -> FixSet | None:
    """Returns a kind with the redundant pass that does its work once it is left out."""
    usual = {a.item for a in search.tree.changing()}
    for kind in kinds:
        step = search.steps.get(frozenset(kind.items))
        without = Tree.of(step.outcome) if step is not None else Tree(applications=[])
        new = [a for a in without.changing() if a.item not in usual and a.item not in kind.items]
        tops = [a for a in new if a.parent is None or without.get(a.parent) not in new]
        if not tops or any(a.raised for a in new):
            continue
        if search.passes_without([*kind.items, *(a.item for a in tops)]):
            search.tree.learn(new)
            stand_ins = search.tree.kinds(tops)
            needed = minimal_fix_set(
                [item for stand_in in stand_ins for item in stand_in.items],
                functools.partial(_passes_without_both, search, kind.items),
            )
            kept = [k for k in stand_ins if needed is None or set(k.items) & set(needed)]
            return FixSet(kinds=(kind, *kept), stand_ins=tuple(kept), alone=True)
    return None


def _passes_without_both(search: _Search, first: Sequence[Item], more: Sequence[Item]) -> bool:
    return search.passes_without([*first, *more])


def _together(search: _Search, kinds: Sequence[Kind]) -> FixSet | None:
    """Returns the fewest kinds whose joint absence fixes the failure; indispensable ones are tried last."""
    for kind in [kind for kind in kinds if kind.suspect][:3]:
        if search.passes_without(kind.items):
            return FixSet(kinds=(kind,))
    asked_for = [kind for kind in kinds if kind.subsystem != "pass_functions"]
    for group in [list(kinds)] if len(asked_for) in (0, len(kinds)) else [list(kinds), asked_for]:
        numbers = [("", str(n)) for n in range(len(group))]
        least = minimal_fix_set(numbers, functools.partial(_passes_without_numbers, search, group))
        if least is not None and not search.spent:
            return FixSet(kinds=tuple(group[int(n)] for _, n in least))
    return None


def _passes_without_numbers(search: _Search, group: Sequence[Kind], off: Sequence[Item]) -> bool:
    return search.passes_without(item for _, n in off for item in group[int(n)].items)


def _turns(search: _Search, fix_set: FixSet) -> list[Item]:
    """Returns the single applications that must be left out, among those of the kinds found."""
    items = [item for kind in fix_set.kinds for item in kind.items]
    if len(items) == 1 or search.hanging:
        return items
    if len(fix_set.kinds) == 1 and len(items) <= 8:
        verdicts = search.ask([[item] for item in items])
        alone = [item for item, verdict in zip(items, verdicts, strict=True) if verdict is Verdict.GOOD]
        if alone:
            return alone[:1]
    least = minimal_fix_set(items, search.passes_without)
    return least if least is not None and not search.spent else items


# -- the result --------------------------------------------------------------------------------------


def _localization(
    search: _Search, stage: Stage, at: Step, fix_set: FixSet, items: list[Item], path: list[FixSet]
) -> Localization:
    tree = search.tree
    culprits = [tree.get(item) for item in items]
    names = list(dict.fromkeys(name_of(application) for application in culprits))
    others = [kind for level in [*path, fix_set] for kind in level.others]
    words = "; ".join(application_words(tree, a) for a in culprits[:_SHOWN])
    if len(culprits) > _SHOWN:
        words += f"; and {len(culprits) - _SHOWN} more"
    left_out = [short_words(tree, application) for application in culprits]
    evidence = [Evidence.of(EvidenceKind.PASS_LEFT_OUT, rung=search.rung, passes=left_out)]
    sufficient = _sufficient(search, culprits)
    evidence += sufficient
    if fix_set.stand_ins:
        stand_ins = [short_words(tree, tree.get(kind.items[0])) for kind in fix_set.stand_ins]
        evidence.append(Evidence.of(EvidenceKind.PASS_REPLACED, applied=left_out[0], stand_ins=stand_ins))
    elif len(culprits) > 1:
        evidence.append(Evidence.of(EvidenceKind.PASSES_ONLY_TOGETHER))
    thorough = all(level.alone for level in [*path, fix_set]) or bool(sufficient)
    sure = at.verdict is Verdict.BAD and len(names) == 1 and thorough and not search.spent
    rivals = [kind for kind in others if name_of(tree.get(kind.items[0])) not in names]
    detail = words
    if rivals:
        sure = False
        earlier = [name_of(tree.get(kind.items[0])) for kind in rivals]
        detail += f"; also fixed by leaving out {', '.join(earlier[:5])}"
        evidence.append(Evidence.of(EvidenceKind.EARLIER_PASS_FIXES, passes=earlier))
    exhibits, changes = [], []
    for application in culprits[:_SHOWN]:
        change = _change(search, application, culprits)
        if change is None:
            continue
        before, after = change
        changes.append(change)
        title = f"{place_words(application)} before and after {name_of(application)}".strip()
        exhibits.append(graph_change(title, before, after, application))
    word = "decomposition" if stage is Stage.DECOMPOSITION else _word(culprits[0])
    return Localization(
        component=Component(
            kind=word,
            name=shorten(", ".join(names), 120),
            detail=shorten(detail, 600),
        ),
        passing_run=search.passing(items) if sure else None,
        evidence=evidence,
        exhibits=exhibits,
        changes=changes,
    )


def _word(application: Application) -> str:
    return {"patterns": "pattern", "reinplacing": "reinplacing"}.get(application.subsystem, "pass")


def _sufficient(search: _Search, culprits: Sequence[Application]) -> list[Evidence]:
    """Returns evidence if the failure remains with everything else left out that can be."""
    tree = search.tree
    if search.hanging or search.spent:
        return []
    kept = tree.with_those_around(culprits)
    stiff = {
        item
        for items, verdict in search.known.items()
        if verdict in (Verdict.DIFFERENT, Verdict.SKIP)
        for item in items
    }
    rest = [a.item for a in tree.changing() if a.item not in kept and a.item not in stiff]
    if not rest:
        return []
    if search.ask([rest])[0] is not Verdict.BAD:
        return []
    return [Evidence.of(EvidenceKind.PASS_ALONE_FAILS, applied=len(culprits), left_out=len(rest))]


def _change(
    search: _Search, application: Application, culprits: Sequence[Application]
) -> tuple[list[str], list[str]] | None:
    """Returns the graph's lines before and after the application, from one more run that records both.

    That run leaves out the other culprits; one that does the same work later would hide the change.
    """
    if search.hanging or search.spent:
        return None
    search.count += 1
    name = "/".join(application.item)
    rest = as_switch(a.item for a in culprits if a.item != application.item)
    switches = (("show_pass", name), *([("off", rest)] if rest else []))
    step = search.runner.one(search.rung, switches, "component")
    shown = step.outcome.facts.get("shown")
    return (list(shown["before"]), list(shown["after"])) if shown else None

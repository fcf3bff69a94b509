"""Finds a missing guard on state that is baked into compiled code but in no graph, such as ``requires_grad``.

Each call captures the same graph, yet recompiling fixes the failure: an attribute of a tensor, or a mode of
torch, changed between the compiling call and the failing call, and no guard checked it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit
from accel_lab.core.stages import Rung
from accel_lab.core.text import shorten
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.dynamo_guards import MOST_VALUES, is_baked
from accel_lab.search.localize.localization import Localization
from accel_lab.search.localize.question_budget import front_of, observe

_AS_NEW = "(as for a new tensor)"


def localize_attribute(runner: LadderRunner, rung: Rung) -> Localization | None:
    """Localizes the changed attributes that fix the failure if their change recompiles; else None.

    The component is at most likely: the stage below Dynamo could also have checked what it bakes in.
    """
    seen = observe(runner, rung)
    if seen is None:
        return None
    questions, observed = seen
    facts = front_of(observed)
    pair = _used_again(facts.get("calls") or [])
    if pair is None:
        return None
    first, later = pair
    changed = sorted(_changed(first["before"], later["before"]), key=lambda path: path.endswith(".grad"))
    changed = changed[:MOST_VALUES]
    if not changed:
        return None
    guards = facts.get("guards") or []
    text = [line for n in first.get("guards") or () if n < len(guards) for line in guards[n].splitlines()]
    fixes = list(questions.single_fixes("guard_on", changed))
    # In a training loop gradients change along with everything else.
    fixes = [path for path in fixes if not path.endswith(".grad")] or fixes
    if not fixes:
        return None
    rows = [
        (path, _words(first, path), _words(later, path), "yes" if _is_read(path, text) else "no")
        for path in changed
    ]
    chosen = fixes[0]
    return Localization(
        component=Component(
            kind="guard",
            name=shorten(", ".join(fixes), 120),
            detail=f"{chosen}: {_words(first, chosen)} when compiled, {_words(later, chosen)} when used; "
            + "no guard refused the change",
        ),
        evidence=[
            Evidence.of(EvidenceKind.GUARD_ON_ATTRIBUTE, value=chosen),
        ],
        exhibits=[
            Exhibit(
                kind="guard",
                title="Attributes that changed while the same compiled code was reused",
                rows=(("value", "when it was compiled", "at the failing call", "named by a guard"), *rows),
            )
        ],
    )


def _used_again(calls: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Returns the call that compiled, and the first that reused its code with another attribute; or None.

    The reusing call may return right values: a lost gradient shows only after the call.
    """
    for later in calls:
        for born in calls:
            again = set(born.get("born") or ()) & set(later.get("ran") or ())
            if again and born is not later and _changed(born["before"], later["before"]):
                return born, later
    return None


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Returns the paths of modes and tensor attributes that differ; a missing one is at its default."""
    paths = [path for path in {**before, **after} if is_baked(path) or path.startswith("torch.")]
    return [path for path in paths if before.get(path) != after.get(path)]


def _words(call: Mapping[str, Any], path: str) -> str:
    return str(call["before"].get(path, _AS_NEW))


def _is_read(path: str, lines: list[str]) -> bool:
    """Whether a guard checks the attribute: one line names both the tensor and the attribute."""
    owner, _, attribute = path.rpartition(".")
    name = owner.rpartition(".")[2]
    attribute = attribute.rstrip("()")
    return any(attribute in line and (f"'{name}'" in line or f".{name}" in line) for line in lines)

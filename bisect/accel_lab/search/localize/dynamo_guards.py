"""Finds the missing guard: the value that changed between two calls without a recompilation.

The child records what the region can read before each call. A value is the culprit if recompiling whenever it
changes (and only then) fixes the failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.stages import Rung
from accel_lab.core.text import shorten
from accel_lab.search.ladder_runner import LadderRunner

from .localization import Localization
from .question_budget import Questions, front_of, observe

MOST_VALUES = 8
#: State that no code names and that still decides what a graph may do: modes, shared memory, module hooks.
_ALWAYS = ("torch.", "overlap(", "hooks(")


def find_guard(runner: LadderRunner, rung: Rung) -> Localization | None:
    """Returns the value that lacks a guard, from a run of ``rung`` that records the state at each call."""
    seen = observe(runner, rung)
    if seen is None:
        return None
    questions, observed = seen
    return localize_guard(questions, observed, questions.one({"look": True}, Rung.UNCOMPILED))


def localize_guard(questions: Questions, observed: Step, plain: Step | None) -> Localization | None:
    """Returns the value that lacks a guard; None if no graph was reused for another state.

    ``observed`` is the failing run with the state around each call, ``plain`` the same uncompiled.
    """
    calls: list[dict[str, Any]] = front_of(observed).get("calls") or []
    pair = _failing_call(questions, calls, observed, plain)
    if pair is None:
        return None
    first, later = pair
    # A graph that does not fit is wrong only if it ran again for a state that it was not captured for.
    changed = [p for p in first["before"] if _differs(p, first, later) and not is_baked(p)]
    read = set(front_of(observed).get("names") or ())
    # Only changed values that the traced code names can matter, and those that code never names.
    changed = [p for p in changed if p.startswith(_ALWAYS) or _last_name(p) in read] or changed
    if not changed:
        return None
    guards: list[str] = front_of(observed).get("guards") or []
    text = "\n".join(guards[n] for n in first.get("guards") or () if n < len(guards))
    guarded = {path: _is_guarded(path, text) for path in changed}
    changed.sort(key=lambda path: guarded[path])
    changed = changed[:MOST_VALUES]
    passing = questions.single_fixes("guard_on", changed)
    fixes = list(passing)
    if not fixes:
        return None
    rows = [
        (path, first["before"][path], later["before"].get(path, "(gone)"), "yes" if guarded[path] else "no")
        for path in changed
    ]
    table = Exhibit(
        kind="guard",
        title="Values that changed while the same graph was reused",
        rows=(("value", "when it was compiled", "at the failing call", "guarded"), *rows),
    )
    what = ", ".join(fixes)
    change = f"{what}: {first['before'][fixes[0]]} when compiled, {later['before'].get(fixes[0])} when used"
    evidence = Evidence.of(EvidenceKind.GUARD_FIXES, value=fixes[0])
    if len(fixes) > 1:
        evidence = Evidence.of(EvidenceKind.GUARDS_FIX, values=fixes)
    return Localization(
        component=Component(
            kind="guard",
            name=shorten(what, 120),
            detail=shorten(change, 300),
        ),
        # If the graph does guard it, the guard may be too wide or the graph too narrow.
        passing_run=passing[fixes[0]] if len(fixes) == 1 and not guarded[fixes[0]] else None,
        evidence=[evidence],
        exhibits=[table],
    )


def _failing_call(
    questions: Questions, calls: Sequence[Mapping[str, Any]], observed: Step, plain: Step | None
) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """Returns the call that captured a graph, and the first wrong call that ran it again; or None."""
    for later in _wrong_calls(questions, calls, observed, plain):
        for born in calls:
            used_again = set(born.get("born") or ()) & set(later.get("ran") or ())
            if used_again and (born["region"], born["call"]) != (later["region"], later["call"]):
                return born, later
    return None


def _wrong_calls(
    questions: Questions, calls: Sequence[Mapping[str, Any]], observed: Step, plain: Step | None
) -> list[Mapping[str, Any]]:
    """Returns the calls that raised or returned other values than uncompiled: others ran no stale graph."""
    if plain is None:
        return []
    theirs = {(c["region"], c["call"]): c for c in front_of(plain).get("calls") or () if not c.get("raised")}
    different = questions.runner.lab.differences(observed.outcome, plain.outcome)
    names = _region_names(observed)
    wrong = {(d.region, d.call) for d in different if d.phase in ("output", "mutated_input")}
    return [
        call
        for call in calls
        if _parts(call, theirs.get((call["region"], call["call"])))
        or (names.get(call["region"]), call["call"]) in wrong
    ]


def _parts(call: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Whether a call raised where the uncompiled one did not, or returned another kind of object."""
    if other is None or call.get("raised"):
        return other is not None
    return _returned(call) != _returned(other)


def _returned(call: Mapping[str, Any]) -> dict[str, str]:
    return {path: words for path, words in call["after"].items() if path.startswith("returned")}


def _region_names(observed: Step) -> dict[int, str]:
    """Maps region ids to the names under which the records file them."""
    names: dict[int, str] = {}
    turns: dict[str, int] = {}
    for region in observed.outcome.facts.get("regions") or ():
        turn = turns.get(region["name"], 0)
        turns[region["name"]] = turn + 1
        names[region["id"]] = f"{region['name']}#{turn}"
    return names


#: Tensor attributes besides values and shape: compiled code may depend on them though no graph shows them.
BAKED = (
    "requires_grad",
    "is_leaf",
    "is_inference()",
    "is_conj()",
    "is_neg()",
    "storage_offset()",
    "_backward_hooks",
    "grad",
)


def is_baked(path: str) -> bool:
    """Whether a path names one of the ``BAKED`` tensor attributes."""
    return path.rpartition(".")[2] in BAKED


def _differs(path: str, first: Mapping[str, Any], later: Mapping[str, Any]) -> bool:
    return bool(first["before"][path] != later["before"].get(path))


def _last_name(path: str) -> str:
    return path.split("[", 1)[0].split("(", 1)[0].rsplit(".", 1)[-1]


def _is_guarded(path: str, text: str) -> bool:
    """Whether the graph's guards check the value; they use its last name."""
    name = _last_name(path)
    return f"'{name}'" in text or f".{name}" in text

"""Localizes a fault within Dynamo: a guard, a side effect, a function, a line, a setting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.stages import Rung
from accel_lab.core.text import shorten
from accel_lab.core.torch_settings import DYNAMO, GENERALISING, OF_DYNAMO
from accel_lab.core.verdict import Verdict

from .dynamo_guards import localize_guard
from .dynamo_lines import localize_line
from .localization import Candidate, Localization
from .question_budget import Questions, front_of, graph_breaks, user_line


def localize(questions: Questions, at: Step, raised_in: Component | None) -> Localization:
    """Localizes the fault; ``raised_in`` is the function that raised, from its frames."""
    observed = questions.one({"look": True})
    if observed is None or observed.verdict is not Verdict.BAD:
        return Localization(component=raised_in)
    plain = questions.one({"look": True}, Rung.UNCOMPILED)
    result = Localization(component=raised_in)
    breaks = graph_breaks(observed)
    if breaks is not None:
        result.exhibits.append(breaks)
    guard = localize_guard(questions, observed, plain) if raised_in is None else None
    if guard is not None:
        _add(result, guard)
        return result
    code = _Code.of(observed)
    allowed = _breaks_allowed(questions, observed)
    fixes = {} if allowed is None else questions.single_fixes("eager", code.keys, **allowed)
    function = _function(code, fixes, result)
    effect = _side_effect(questions, observed, plain, fixes)
    if effect is not None:
        _add(result, effect)
    if effect is not None:
        result.component = _with(result.component, function.component if function is not None else None)
        return result
    if raised_in is not None:
        result.take(_fixed_and_raised(function, raised_in, user_line(at.outcome)))
        return result
    narrow = code.innermost(fixes)
    line = None
    if len(narrow) == 1 and allowed is not None:
        line = localize_line(
            questions, observed, narrow[0], left_out=fixes[narrow[0]], outer=code.outer(narrow[0]), **allowed
        )
        if line is not None and _used_again(observed):
            # A reused graph may be right for the call that it was captured for, including this line.
            line.passing_run = None
    if function is not None and function.passing_run is not None:
        result.take(function)
        if line is not None:
            _add(result, line)
            result.component = _with(function.component, line.component)
        return result
    setting = _setting(questions, observed)
    for more in (setting, line):
        if more is not None:
            _add(result, more)
    if result.component is None:
        result.take(function)
    return result


def _add(result: Localization, more: Localization) -> None:
    if result.component is None:
        result.take(more.candidate)
    result.evidence += more.evidence
    result.exhibits += more.exhibits


# -- functions -------------------------------------------------------------------------------------


class _Code:
    """The code that Dynamo traced: frames of their own, and functions inlined into them."""

    def __init__(self, frames: Sequence[str], callers: Mapping[str, str]) -> None:
        self.frames = list(dict.fromkeys(frames))
        self.callers = {key: caller for key, caller in callers.items() if key not in self.frames}

    @classmethod
    def of(cls, observed: Step) -> _Code:
        facts = front_of(observed)
        return cls(
            [row["key"] for row in facts.get("frames") or ()],
            {row["key"]: row["caller"] for row in facts.get("inlined") or ()},
        )

    @property
    def keys(self) -> list[str]:
        return [*self.frames, *self.callers]

    def innermost(self, fixes: Mapping[str, Step]) -> list[str]:
        """Returns the innermost of ``fixes``: no other one is inlined into them, or resumes them.

        The rest of a function after a graph break is a frame of its own, which exists only while the frame
        before it is compiled. The runs with one of them left uncompiled show this.
        """
        around = {outer for key in fixes for outer in self.outer(key)}
        traced = {key: _traced(step) for key, step in fixes.items()}
        for key in fixes:
            for other in fixes:
                if traced[key] and traced[other] and other not in traced[key] and key in traced[other]:
                    around.add(key)
        return [key for key in fixes if key not in around]

    def outer(self, key: str) -> set[str]:
        """Returns the functions that ``key`` is inlined into, out to the frame."""
        found: set[str] = set()
        while key in self.callers and self.callers[key] not in found:
            key = self.callers[key]
            found.add(key)
        return found


def _traced(step: Step) -> set[str]:
    facts = front_of(step)
    return {str(row["key"]) for name in ("frames", "inlined") for row in facts.get(name) or ()}


def _fixed_and_raised(function: Candidate | None, raised_in: Component, line: str) -> Candidate:
    """Returns the function whose exclusion fixes the failure, with the exception's frames in its detail.

    No run confirms the frames, so they are the component only if there is no such function.
    """
    if function is None or function.passing_run is None:
        return Candidate(
            component=_with(raised_in, function.component if function is not None else None) or raised_in
        )
    place = raised_in.detail.partition(", for ")[0]
    parts = (line, f"raised by {raised_in.name} ({place})", function.component.detail)
    detail = shorten("; ".join(filter(None, parts)), 400)
    return replace(function, component=replace(function.component, detail=detail))


def _called(key: str) -> str:
    """Returns the function's name; a resume function has the name of the function that it resumes."""
    name = key.split(" ", 1)[0]
    resumed = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_\d+", name)
    return resumed[1] if resumed else name


def _breaks_allowed(questions: Questions, observed: Step) -> dict[str, Any] | None:
    """Returns the switches needed to leave code out; None if they alone fix the failure.

    Leaving code out breaks the graph, which the script may forbid (``fullgraph``).
    """
    regions = observed.outcome.facts.get("regions") or []
    if not any(region.get("fullgraph") for region in regions):
        return {}
    step = questions.one({"look": True, "fullgraph": False})
    return {"fullgraph": False} if step is not None and step.verdict is Verdict.BAD else None


def _function(code: _Code, fixes: Mapping[str, Step], result: Localization) -> Candidate | None:
    """Returns the narrowest function that must be traced to fail; adds its evidence to ``result``."""
    if not fixes:
        return None
    rows = [
        (
            key,
            "a frame" if key in code.frames else f"inlined into {code.callers[key]}",
            "passes" * (key in fixes),
        )
        for key in code.keys
    ]
    result.exhibits.append(
        Exhibit(
            kind="functions",
            title="Functions that Dynamo traced",
            rows=(("function", "how", "left uncompiled"), *rows[:40]),
        )
    )
    narrow = code.innermost(fixes)
    names = list(dict.fromkeys(map(_called, narrow)))
    others = [key for key in fixes if key not in narrow]
    if len(code.keys) == 1:
        # With one frame and nothing inlined, this says no more than that Dynamo is at fault.
        result.evidence.append(Evidence.of(EvidenceKind.ONLY_TRACED_CODE, function=narrow[0]))
        return None
    result.evidence.append(Evidence.of(EvidenceKind.MUST_BE_TRACED, functions=narrow, around=others))
    frame = narrow[0] in code.frames
    component = Component(
        kind="frame" if frame else "function",
        name=shorten(", ".join(names), 120),
        detail=shorten("; ".join(narrow), 300),
        cure=f"torch.compiler.disable on {names[0]}" if len(narrow) == 1 and names[0].isidentifier() else "",
    )
    return Candidate(component=component, passing_run=fixes[narrow[0]] if len(narrow) == 1 else None)


def _with(component: Component | None, place: Component | None) -> Component | None:
    """Returns the component with the function or line that contains it in its detail."""
    if component is None or place is None:
        return component
    where = f"at {place.name}: {place.detail}" if place.kind == "line" else f"in {place.detail}"
    detail = f"{component.detail}; {where}" if component.detail else where
    return replace(component, detail=shorten(detail, 400))


# -- side effects ----------------------------------------------------------------------------------


def _side_effect(
    questions: Questions, observed: Step, plain: Step | None, fixes: Mapping[str, Step]
) -> Localization | None:
    """Returns objects that compiled code leaves in another state than the script does; else None."""
    if plain is None:
        return None
    lost = lost_state(observed, plain)
    wrong = questions.runner.lab.differences(observed.outcome, plain.outcome)
    numbers = [
        d.call for d in wrong if d.call >= 0 and d.phase == "output" and d.comparison.reason in _NUMBERS
    ]
    if not lost or (numbers and min(numbers) <= min(call for call, _, _, _ in lost)):
        return None  # wrong numbers come first: the state recorded later is a consequence
    without_function = [
        (step, {(call, path) for call, path, _, _ in lost_state(step, plain)})
        for step in fixes.values()
        if front_of(step)
    ]
    mended = [row for row in lost if any((row[0], row[1]) not in still for _, still in without_function)]
    if without_function and not mended:
        return None  # a trace of having been compiled, not the fault
    shown = mended or lost
    rows = [(path, want, got) for _, path, want, got in shown]
    names = [f"{path} ({_type_of(want if want != _NOTHING else got)})" for path, want, got in rows]
    returned = all(path.startswith("returned") for path, _, _ in rows)
    kind = "output" if returned else "side_effect"
    first = shown[0]
    return Localization(
        component=Component(
            kind=kind,
            name=shorten(", ".join(names[:2]), 120),
            detail=shorten(f"after call {first[0]}: {first[2]} uncompiled, {first[3]} compiled", 300),
        ),
        passing_run=next(
            (step for step, still in without_function if mended and first[:2] not in still), None
        )
        if len({_root(path) for path, _, _ in rows}) == 1
        else None,
        evidence=[
            Evidence.of(
                EvidenceKind.STATE_DIFFERS,
                thing=names[0],
                compiled=first[3],
                script=first[2],
                function_mends=bool(mended),
            )
        ],
        exhibits=[
            Exhibit(
                kind="side_effect",
                title="State that differs after the call",
                rows=(("object", "uncompiled", "compiled"), *rows[:20]),
            )
        ],
    )


#: Differences in the values of a tensor, as opposed to its object.
_NUMBERS = ("values", "nan", "shape", "dtype", "stride")
_NOTHING = "(not there)"


def lost_state(observed: Step, plain: Step) -> list[tuple[int, str, str, str]]:
    """Returns ``(call, path, uncompiled, compiled)`` for each path, at the first call where it differs."""
    found: dict[tuple[int, str], tuple[int, str, str, str]] = {}
    theirs = {(c["region"], c["call"]): c for c in front_of(plain).get("calls") or ()}
    for call in front_of(observed).get("calls") or ():
        other = theirs.get((call["region"], call["call"]))
        if other is None or call.get("raised") or other.get("raised"):
            continue
        got, want = call["after"], other["after"]
        for path in {**want, **got}:
            key = (call["region"], path)
            if got.get(path) != want.get(path) and key not in found:
                found[key] = (call["call"], path, want.get(path, _NOTHING), got.get(path, _NOTHING))
    return sorted(found.values(), key=lambda row: row[0])


def _type_of(words: str) -> str:
    kind = words.split(" ", 1)[0]
    return kind if kind.replace("_", "").replace(".", "").isalpha() else "value"


def _root(path: str) -> str:
    return path.split("[", 1)[0]


# -- settings --------------------------------------------------------------------------------------


def _setting(questions: Questions, observed: Step) -> Localization | None:
    """Returns a single Dynamo setting that fixes the failure, with the guards that caused recompilations."""
    steps = questions.ask([{"dynamo": {one.key: one.value}} for one in OF_DYNAMO])
    tried = zip(OF_DYNAMO, steps, strict=False)
    working = [setting for setting, step in tried if step.verdict is Verdict.GOOD]
    passing = [step for step in steps if step.verdict is Verdict.GOOD]
    fixes = [setting.words for setting in working]
    recompiles = front_of(observed).get("recompiles") or []
    rows = [tuple(str(line).partition(": ")[::2]) for line in recompiles]
    exhibits = (
        [
            Exhibit(
                kind="guard", title="Why it compiled again", rows=(("function", "guard that failed"), *rows)
            )
        ]
        if rows
        else []
    )
    if not fixes:
        return Localization(exhibits=exhibits) if exhibits else None
    if not rows and not _used_again(observed) and GENERALISING.issuperset(one.key for one in working):
        return Localization(
            evidence=[Evidence.of(EvidenceKind.SETTING_WORKS_AROUND, namespace=DYNAMO, setting=fixes[0])]
        )
    return Localization(
        component=Component(
            kind="setting",
            name=shorten(", ".join(fixes), 120),
            detail=user_line(observed.outcome),
            cure=working[0].code,
        ),
        passing_run=passing[0] if len(fixes) == 1 else None,
        evidence=[Evidence.of(EvidenceKind.SETTING_FIXES, namespace=DYNAMO, settings=fixes[:1])],
        exhibits=exhibits,
    )


def _used_again(observed: Step) -> bool:
    """Whether a call ran a graph that another call had captured."""
    calls = front_of(observed).get("calls") or ()
    return any(set(call.get("ran") or ()) - set(call.get("born") or ()) for call in calls)

"""Names what Dynamo got wrong: a missing guard, a lost side effect, the function, the line, a setting."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.stages import Rung
from accel_lab.core.text import shorten
from accel_lab.core.torch_settings import DYNAMO, GENERALISING, OF_DYNAMO
from accel_lab.core.verdict import Verdict

from .dynamo_guards import name_guard
from .dynamo_lines import name_line
from .localization import Candidate, Localization
from .question_budget import Questions, front_of, graph_breaks, user_line


def name(questions: Questions, at: Step, told: Component | None) -> Localization:
    """``told`` is what the frames of an exception say."""
    look = questions.one({"look": True})
    if look is None or look.verdict is not Verdict.BAD:
        return Localization(component=told)
    plain = questions.one({"look": True}, Rung.UNCOMPILED)
    named = Localization(component=told)
    breaks = graph_breaks(look)
    if breaks is not None:
        named.exhibits.append(breaks)
    guard = name_guard(questions, look, plain) if told is None else None
    if guard is not None:
        _add(named, guard)
        return named
    code = _Code.of(look)
    allowed = _breaks_allowed(questions, look)
    cures = {} if allowed is None else questions.single_cures("eager", code.keys, **allowed)
    function = _function(code, cures, named)
    effect = _side_effect(questions, look, plain, cures)
    if effect is not None:
        _add(named, effect)
    if effect is not None:
        named.component = _with(named.component, function.component if function is not None else None)
        return named
    if told is not None:
        named.take(_cured_and_told(function, told, user_line(at.outcome)))
        return named
    narrow = code.innermost(cures)
    line = None
    if len(narrow) == 1 and allowed is not None:
        line = name_line(
            questions, look, narrow[0], left_out=cures[narrow[0]], outer=code.outer(narrow[0]), **allowed
        )
        if line is not None and _used_again(look):
            # A graph that is used again may be right for the call that it was made for, line and all.
            line.cure = None
    if function is not None and function.cure is not None:
        named.take(function)
        if line is not None:
            _add(named, line)
            named.component = _with(function.component, line.component)
        return named
    setting = _setting(questions, look)
    for more in (setting, line):
        if more is not None:
            _add(named, more)
    if named.component is None:
        named.take(function)
    return named


def _add(named: Localization, more: Localization) -> None:
    if named.component is None:
        named.take(more.candidate)
    named.evidence += more.evidence
    named.exhibits += more.exhibits


# -- functions -------------------------------------------------------------------------------------


class _Code:
    """The code that Dynamo traced: frames of their own and functions that were inlined into them."""

    def __init__(self, frames: Sequence[str], callers: Mapping[str, str]) -> None:
        self.frames = list(dict.fromkeys(frames))
        self.callers = {key: caller for key, caller in callers.items() if key not in self.frames}

    @classmethod
    def of(cls, look: Step) -> _Code:
        facts = front_of(look)
        return cls(
            [row["key"] for row in facts.get("frames") or ()],
            {row["key"]: row["caller"] for row in facts.get("inlined") or ()},
        )

    @property
    def keys(self) -> list[str]:
        return [*self.frames, *self.callers]

    def innermost(self, cures: Mapping[str, Step]) -> list[str]:
        """Those that cure and around which no other such lies: none is inlined into them, or resumes them.

        The rest of a function behind a graph break is a frame of its own, which is there only as long as the
        frame before it is compiled. That is seen in the runs in which one of them was left as it is.
        """
        around = {outer for key in cures for outer in self.outer(key)}
        traced = {key: _traced(step) for key, step in cures.items()}
        for key in cures:
            for other in cures:
                if traced[key] and traced[other] and other not in traced[key] and key in traced[other]:
                    around.add(key)
        return [key for key in cures if key not in around]

    def outer(self, key: str) -> set[str]:
        """The functions that ``key`` is inlined into, out to the frame."""
        found: set[str] = set()
        while key in self.callers and self.callers[key] not in found:
            key = self.callers[key]
            found.add(key)
        return found


def _traced(step: Step) -> set[str]:
    """The code that Dynamo traced in a run."""
    facts = front_of(step)
    return {str(row["key"]) for name in ("frames", "inlined") for row in facts.get(name) or ()}


def _cured_and_told(function: Candidate | None, told: Component, line: str) -> Candidate:
    """The function that was shown to cure when left as it is, with what the frames of the exception say.

    No run has shown what the frames say, so that alone is the component only where there is no such function.
    """
    if function is None or function.cure is None:
        return Candidate(component=_with(told, function.component if function is not None else None) or told)
    place = told.detail.partition(", for ")[0]
    parts = (line, f"raised by {told.name} ({place})", function.component.detail)
    detail = shorten("; ".join(filter(None, parts)), 400)
    return replace(function, component=replace(function.component, detail=detail))


def _called(key: str) -> str:
    """The function's name; what resumes one behind a graph break goes by the name of that one."""
    name = key.split(" ", 1)[0]
    resumed = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_\d+", name)
    return resumed[1] if resumed else name


def _breaks_allowed(questions: Questions, look: Step) -> dict[str, Any] | None:
    """What a question must hold so that code can be left out; None where that is a cure by itself.

    Leaving code out breaks the graph, which the script may forbid.
    """
    regions = look.outcome.facts.get("regions") or []
    if not any(region.get("fullgraph") for region in regions):
        return {}
    step = questions.one({"look": True, "fullgraph": False})
    return {"fullgraph": False} if step is not None and step.verdict is Verdict.BAD else None


def _function(code: _Code, cures: Mapping[str, Step], named: Localization) -> Candidate | None:
    """The narrowest function that must be traced for the failure; told in ``named`` as well."""
    if not cures:
        return None
    rows = [
        (
            key,
            "a frame" if key in code.frames else f"inlined into {code.callers[key]}",
            "cures" * (key in cures),
        )
        for key in code.keys
    ]
    named.exhibits.append(
        Exhibit(
            kind="functions",
            title="Functions that Dynamo traced",
            rows=(("function", "how", "left as it is"), *rows[:40]),
        )
    )
    narrow = code.innermost(cures)
    names = list(dict.fromkeys(map(_called, narrow)))
    others = [key for key in cures if key not in narrow]
    if len(code.keys) == 1:
        # With one frame and nothing in it this says no more than that Dynamo is at fault.
        named.evidence.append(f"{narrow[0]} is all the code that Dynamo compiled")
        return None
    which = narrow[0] if len(narrow) == 1 else "each of " + ", ".join(narrow)
    told = f"{which} must be traced for the failure: with only that left as it is, it passes"
    if others:
        told += f" (so it does with {', '.join(others)} around it)"
    named.evidence.append(told)
    frame = narrow[0] in code.frames
    component = Component(
        kind="frame" if frame else "function",
        name=shorten(", ".join(names), 120),
        detail=shorten("; ".join(narrow), 300),
        cure=f"torch.compiler.disable on {names[0]}" if len(narrow) == 1 and names[0].isidentifier() else "",
    )
    return Candidate(component=component, cure=cures[narrow[0]] if len(narrow) == 1 else None)


def _with(component: Component | None, place: Component | None) -> Component | None:
    """The component with the function or line where it lies in its detail."""
    if component is None or place is None:
        return component
    where = f"at {place.name}: {place.detail}" if place.kind == "line" else f"in {place.detail}"
    detail = f"{component.detail}; {where}" if component.detail else where
    return replace(component, detail=shorten(detail, 400))


# -- side effects ----------------------------------------------------------------------------------


def _side_effect(
    questions: Questions, look: Step, plain: Step | None, cures: Mapping[str, Step]
) -> Localization | None:
    """Objects that the compiled code leaves in another state than the script would."""
    if plain is None:
        return None
    lost = lost_state(look, plain)
    wrong = questions.runner.lab.differences(look.outcome, plain.outcome)
    numbers = [
        d.call for d in wrong if d.call >= 0 and d.phase == "output" and d.comparison.reason in _NUMBERS
    ]
    if not lost or (numbers and min(numbers) <= min(call for call, _, _, _ in lost)):
        return None  # wrong numbers come first: what is written down of them is a consequence
    cured = [
        (step, {(call, path) for call, path, _, _ in lost_state(step, plain)})
        for step in cures.values()
        if front_of(step)
    ]
    mended = [row for row in lost if any((row[0], row[1]) not in still for _, still in cured)]
    if cured and not mended:
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
        cure=next((step for step, still in cured if mended and first[:2] not in still), None)
        if len({_root(path) for path, _, _ in rows}) == 1
        else None,
        evidence=[
            f"the compiled code leaves {names[0]} as {first[3]!r}, the script as {first[2]!r}"
            + ("; with the function left as it is, both agree" if mended else "")
        ],
        exhibits=[
            Exhibit(
                kind="side_effect",
                title="State that differs after the call",
                rows=(("object", "uncompiled", "compiled"), *rows[:20]),
            )
        ],
    )


#: Why values differ, where it is not the object that does.
_NUMBERS = ("values", "nan", "shape", "dtype", "stride")
_NOTHING = "(not there)"


def lost_state(look: Step, plain: Step) -> list[tuple[int, str, str, str]]:
    """``(call, path, uncompiled, compiled)``, each path at the first call after which it differs."""
    found: dict[tuple[int, str], tuple[int, str, str, str]] = {}
    theirs = {(c["region"], c["call"]): c for c in front_of(plain).get("calls") or ()}
    for call in front_of(look).get("calls") or ():
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


def _setting(questions: Questions, look: Step) -> Localization | None:
    """A single setting of Dynamo that cures it, with the guards that made Dynamo compile again."""
    steps = questions.ask([{"dynamo": {one.key: one.value}} for one in OF_DYNAMO])
    asked = zip(OF_DYNAMO, steps, strict=False)
    cured = [setting for setting, step in asked if step.verdict is Verdict.GOOD]
    passing = [step for step in steps if step.verdict is Verdict.GOOD]
    cures = [setting.words for setting in cured]
    recompiles = front_of(look).get("recompiles") or []
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
    if not cures:
        return Localization(exhibits=exhibits) if exhibits else None
    if not rows and not _used_again(look) and GENERALISING.issuperset(setting.key for setting in cured):
        return Localization(
            evidence=[
                f"with {DYNAMO}.{cures[0]} it passes: a way around it, and not shown to be the "
                "cause, as nothing was compiled or used a second time"
            ]
        )
    return Localization(
        component=Component(
            kind="setting",
            name=shorten(", ".join(cures), 120),
            detail=user_line(look.outcome),
            cure=cured[0].code,
        ),
        cure=passing[0] if len(cures) == 1 else None,
        evidence=[f"with only {DYNAMO}.{cures[0]} it passes"],
        exhibits=exhibits,
    )


def _used_again(look: Step) -> bool:
    """Whether a call ran a graph that another call had captured."""
    calls = front_of(look).get("calls") or ()
    return any(set(call.get("ran") or ()) - set(call.get("born") or ()) for call in calls)

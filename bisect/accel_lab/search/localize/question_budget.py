"""Questions to the front of the compiler: what is left out of it, counted, so that no search runs away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict
from accel_lab.search import frames
from accel_lab.search.ladder_runner import LadderRunner

from .ablation import minimal_fix_set

#: How many runs one name may cost; a hang costs its time limit each time.
MOST = 26
MOST_OF_A_HANG = 8
#: Up to so many candidates each is asked alone, so that every cure is seen; more are halved.
SINGLES = 12


@dataclass(kw_only=True)
class Questions:
    """Asks one rung with parts of the front left out, at most ``left`` times."""

    runner: LadderRunner
    rung: Rung
    left: int = MOST

    def __post_init__(self) -> None:
        target = self.runner.baseline.target
        if target is not None and target.kind == "timeout":
            self.left = min(self.left, MOST_OF_A_HANG)

    def ask(self, switches: Iterable[Mapping[str, Any]], rung: Rung | None = None) -> list[Step]:
        """One step for each switch, as far as the count reaches."""
        wanted = list(switches)[: max(0, self.left)]
        self.left -= len(wanted)
        questions = [(rung or self.rung, (("front", dict(switch)),)) for switch in wanted]
        return self.runner.ask(questions, "component") if questions else []

    def one(self, switch: Mapping[str, Any], rung: Rung | None = None) -> Step | None:
        """A single question; None if there may be no more."""
        steps = self.ask([switch], rung)
        return steps[0] if steps else None

    def single_fixes(self, name: str, keys: Sequence[str], **more: Any) -> dict[str, Step]:
        """Those of ``keys`` each of which cures the failure alone when the switch ``name`` holds it.

        Of many keys only one such is looked for, by halving.
        """
        if len(keys) <= min(SINGLES, self.left):
            steps = self.ask([{name: [key], **more} for key in keys])
            answers_by_key = zip(keys, steps, strict=False)
            return {key: step for key, step in answers_by_key if step.verdict is Verdict.GOOD}
        answers: dict[tuple[str, ...], Step] = {}

        def passes_without(off: Sequence[tuple[str, str]]) -> bool:
            chosen = tuple(key for _, key in off)
            step = self.one({name: list(chosen), **more})
            if step is None:
                return False
            answers[chosen] = step
            return step.verdict is Verdict.GOOD

        smallest = minimal_fix_set([(name, key) for key in keys], passes_without, most=max(1, self.left - 4))
        if smallest is None or len(smallest) != 1:
            return {}
        key = smallest[0][1]
        return {key: answers[(key,)]} if (key,) in answers else {}


def front_of(step: Step) -> dict[str, Any]:
    """What the child wrote down of the front end."""
    return step.outcome.facts.get("front") or {}


def from_frames(outcome: Outcome, stage: Stage) -> Component | None:
    """The function of torch in which an exception arose, with the user's line that led there."""
    raised = outcome.raised
    if raised is None:
        return None
    # An anonymous function says nothing; the one around it does.
    hint = frames.innermost([f for f in raised.frames if not f.function.startswith("<")], [stage])
    if hint is None:
        return None
    where = f"{hint[1].file}:{hint[1].line}"
    line = user_line(outcome)
    return Component(kind="function", name=hint[1].function, detail=f"{where}, for {line}" if line else where)


def user_line(outcome: Outcome) -> str:
    """``file:line in function: source`` of the script's innermost line in an exception of the compiler."""
    raised = outcome.raised
    if raised is None:
        return ""
    lines = raised.message.partition("from user code:")[2].splitlines()
    places = [n for n, line in enumerate(lines) if line.strip().startswith('File "')]
    own_places = [n for n in places if "/site-packages/" not in lines[n]]
    for place in (own_places or places)[-1:]:
        source = lines[place + 1].strip() if place + 1 < len(lines) else ""
        return shorten(f"{lines[place].strip()[5:]}: {source}", 200)
    own = [f for f in raised.frames if not f.file.startswith(("torch/", "<"))]
    return f"{own[-1].file}:{own[-1].line} in {own[-1].function}" if own else ""


def graph_breaks(step: Step) -> Exhibit | None:
    """Why Dynamo cut the code into several graphs, if it did."""
    reasons = (step.outcome.facts.get("counters") or {}).get("graph_break") or {}
    rows = [(str(count), shorten(" ".join(str(reason).split()), 300)) for reason, count in reasons.items()]
    if not rows:
        return None
    return Exhibit(kind="graph_breaks", title="Graph breaks", rows=(("times", "reason"), *rows[:30]))


def setting_words(key: str, value: object) -> str:
    """A setting as it was tried; ``flip`` is the other truth value than the one that holds."""
    return f"{key} switched over" if value == "flip" else f"{key}={value}"


def setting_code(module: str, key: str, value: object) -> str:
    """The line that makes the setting so in a script; empty where the value depends on the release."""
    return "" if value == "flip" else f"{module}.{key} = {value!r}"

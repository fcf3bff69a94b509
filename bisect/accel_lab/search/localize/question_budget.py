"""Limits the number of runs with parts of the compiler's front end left out."""

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

#: Maximum runs to find one component; a hang costs its time limit each time.
MOST = 26
MOST_OF_A_HANG = 8
#: Up to this number, candidates are run one by one, so that every fix is found; more are halved.
SINGLES = 12


@dataclass(kw_only=True)
class Questions:
    """Runs one rung with parts of the front end left out, at most ``left`` times."""

    runner: LadderRunner
    rung: Rung
    left: int = MOST

    def __post_init__(self) -> None:
        target = self.runner.baseline.target
        if target is not None and target.kind == "timeout":
            self.left = min(self.left, MOST_OF_A_HANG)

    def ask(self, switches: Iterable[Mapping[str, Any]], rung: Rung | None = None) -> list[Step]:
        """Returns one step per switch, until ``left`` is used up."""
        wanted = list(switches)[: max(0, self.left)]
        self.left -= len(wanted)
        questions = [(rung or self.rung, (("front", dict(switch)),)) for switch in wanted]
        return self.runner.ask(questions, "component") if questions else []

    def one(self, switch: Mapping[str, Any], rung: Rung | None = None) -> Step | None:
        """Asks a single question; returns None if ``left`` is used up."""
        steps = self.ask([switch], rung)
        return steps[0] if steps else None

    def single_fixes(self, name: str, keys: Sequence[str], **more: Any) -> dict[str, Step]:
        """Returns the ``keys`` that each fix the failure alone when the switch ``name`` holds them.

        Among many keys only one is searched for, by halving.
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


def observe(runner: LadderRunner, rung: Rung) -> tuple[Questions, Step] | None:
    """Returns a failing run that records the state around every call, and the remaining questions.

    None for a flaky script, and if the run does not fail in the same way.
    """
    if runner.baseline.flaky:
        return None
    questions = Questions(runner=runner, rung=rung)
    observed = questions.one({"look": True})
    return (questions, observed) if observed is not None and observed.verdict is Verdict.BAD else None


def front_of(step: Step) -> dict[str, Any]:
    """Returns what the child recorded about the front end."""
    return step.outcome.facts.get("front") or {}


def from_frames(outcome: Outcome, stage: Stage) -> Component | None:
    """Returns the torch function that raised, with the user's line that led there; or None."""
    raised = outcome.raised
    if raised is None:
        return None
    # A lambda's frame is skipped for the named function around it.
    hint = frames.innermost([f for f in raised.frames if not f.function.startswith("<")], [stage])
    if hint is None:
        return None
    where = f"{hint[1].file}:{hint[1].line}"
    line = user_line(outcome)
    return Component(kind="function", name=hint[1].function, detail=f"{where}, for {line}" if line else where)


def user_line(outcome: Outcome) -> str:
    """Returns ``file:line in function: source`` of the script's innermost line in a compiler exception."""
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
    """Lists why Dynamo broke the graph; None if it did not."""
    reasons = (step.outcome.facts.get("counters") or {}).get("graph_break") or {}
    rows = [(str(count), shorten(" ".join(str(reason).split()), 300)) for reason, count in reasons.items()]
    if not rows:
        return None
    return Exhibit(kind="graph_breaks", title="Graph breaks", rows=(("times", "reason"), *rows[:30]))

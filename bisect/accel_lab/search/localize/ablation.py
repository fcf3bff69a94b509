"""Ablation: runs with applications left out, and the smallest set whose absence fixes the failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from accel_lab.core.errors import OutOfTime
from accel_lab.core.findings import Step
from accel_lab.core.stages import Rung
from accel_lab.core.time_budget import Allowance
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner

#: One application: the subsystem, and its name with its turn among equal names.
Item = tuple[str, str]


def as_switch(items: Iterable[Item]) -> dict[str, list[str]]:
    """Returns the value of the switch ``off`` that leaves these applications out."""
    switch: dict[str, list[str]] = {}
    for subsystem, key in items:
        switch.setdefault(subsystem, []).append(key)
    return {subsystem: sorted(keys) for subsystem, keys in sorted(switch.items())}


@dataclass(kw_only=True)
class Ablation:
    """Asks "with these applications left out, does it still fail?".

    No question is asked twice. At most ``most`` are asked, or as many as ``allowance`` has time for.
    ``known`` are the verdicts, some of which may be given beforehand; ``steps`` are the runs made for them.
    """

    runner: LadderRunner
    rung: Rung
    most: int
    allowance: Allowance | None = None
    known: dict[frozenset[Item], Verdict] = field(default_factory=dict)
    steps: dict[frozenset[Item], Step] = field(default_factory=dict)
    count: int = 0

    @property
    def spent(self) -> bool:
        return self.count >= self.most or (self.allowance is not None and self.allowance.refused)

    def ask(self, leave_out: Sequence[Iterable[Item]]) -> list[Verdict]:
        """Returns the verdicts, asked in parallel; SKIP once the questions are used up."""
        sets = [frozenset(items) for items in leave_out]
        new = [s for s in dict.fromkeys(sets) if s not in self.known][: max(0, self.most - self.count)]
        if new and self.allowance is not None and not self.allowance.has_left():
            new = []
        self.count += len(new)
        try:
            steps = self.runner.ask([(self.rung, (("off", as_switch(items)),)) for items in new], "component")
        except OutOfTime:
            if self.allowance is None:
                raise
            self.allowance.refused, steps, new = True, [], []
        for step in steps:
            if self.allowance is not None:
                self.allowance.spend(step.outcome.seconds)
        self.steps.update(zip(new, steps, strict=True))
        self.known.update((items, step.verdict) for items, step in zip(new, steps, strict=True))
        return [self.known.get(items, Verdict.SKIP) for items in sets]

    def verdict(self, items: Iterable[Item]) -> Verdict:
        """Returns one verdict; SKIP once the questions are used up."""
        return self.ask([items])[0]

    def passes_without(self, items: Iterable[Item]) -> bool:
        return self.verdict(items) is Verdict.GOOD

    def passing(self, items: Iterable[Item]) -> Step | None:
        """Returns the run with only these left out if it passed, else None; makes the run if needed."""
        chosen = frozenset(items)
        if self.known.get(chosen) is not Verdict.GOOD:
            return None
        if chosen not in self.steps:
            self.steps[chosen] = self.runner.one(self.rung, (("off", as_switch(chosen)),), "component")
        step = self.steps[chosen]
        return step if step.verdict is Verdict.GOOD else None


def minimal_fix_set(
    items: Sequence[Item], passes_without: Callable[[Sequence[Item]], bool], most: int = 40
) -> list[Item] | None:
    """Returns a smallest set of applications whose absence fixes the failure, by delta debugging.

    Starts from everything left out; None if that still fails. The set is 1-minimal unless the questions run
    out (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input").
    """
    count = 0

    def ask(off: Sequence[Item]) -> bool:
        nonlocal count
        count += 1
        return count <= most and passes_without(off)

    current = list(items)
    if not current or not ask(current):
        return None
    pieces = 2
    while len(current) > 1:
        size = -(-len(current) // pieces)
        parts = [current[i : i + size] for i in range(0, len(current), size)]
        smaller = next((part for part in parts if ask(part)), None)
        if smaller is not None:
            current, pieces = smaller, 2
            continue
        rests = [[n for n in current if n not in part] for part in parts] if len(parts) > 2 else []
        without = next((rest for rest in rests if ask(rest)), None)
        if without is not None:
            current, pieces = without, max(2, pieces - 1)
        elif size == 1 or count > most:
            break
        else:
            pieces = min(len(current), pieces * 2)
    return current

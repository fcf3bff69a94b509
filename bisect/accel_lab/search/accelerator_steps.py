"""The transfer or host call at fault: each is held against its definition, the wrong ones replaced alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_lab.core.findings import Component, Exhibit
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Rung
from accel_lab.core.verdict import Verdict

from .accelerator import Ask, Reading
from .climb import Climber, Switches
from .named import Named

#: So many of the steps that are at fault together are named.
MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class WrongStep:
    """One transfer or host call that did not do what its definition does (``child.mock_steps``).

    ``wrong`` of ``of`` elements differ. ``layout`` is empty for a call.
    """

    kind: str
    name: str
    tensor: str
    wrong: int
    of: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    offset: int
    layout: str
    source: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> WrongStep:
        return cls(
            kind=data["kind"],
            name=data["name"],
            tensor=data["tensor"],
            wrong=data["wrong"],
            of=data["of"],
            shape=tuple(data["shape"]),
            dtype=data["dtype"],
            strides=tuple(data["strides"]),
            offset=data["offset"],
            layout=data["layout"],
            source=data.get("source", ""),
        )

    @property
    def told(self) -> str:
        """The tensor in words."""
        text = f"{self.dtype} {list(self.shape)}"
        if self.layout:
            text += f", host strides {list(self.strides)}, offset {self.offset}; on the device {self.layout}"
        return text + (f"; {self.source}" if self.source else "")


def wrong_steps(outcome: Outcome, transfers: bool) -> list[WrongStep]:
    """The transfers, or else the host calls, of a compared run that were wrong, in their order."""
    rows = outcome.facts.get("mock", {}).get("steps", {}).get("wrong", ())
    found = [WrongStep.from_json(row) for row in rows]
    return [step for step in found if (step.kind != "host_call") is transfers]


def name_step(climber: Climber, reading: Reading, main: Switches) -> Named:
    """The steps whose replacement alone cures, or an empty answer."""
    transfers = reading.out is Ask.TRANSFER
    if not transfers and reading.out is not Ask.HOST:
        return Named()
    settings = dict(dict(main)["mock"])
    traced = climber.one(Rung.MOCK, (("mock", {**settings, "steps": True}),), "steps")
    found = wrong_steps(traced.outcome, transfers)
    what = "transfer" if transfers else "host call"
    if not found:
        return Named(evidence=[f"no single {what} of a traced run differs from its definition"])
    first = found[0]
    named = Named(
        evidence=[
            f"the first {what} that differs from its definition is {first.name}, {first.wrong} of {first.of} "
            f"elements ({first.told})"
        ],
        exhibits=[_exhibit(found, what)],
    )
    names = list(dict.fromkeys(step.name for step in found))
    for chosen in [names[:1], names] if len(names) > 1 else [names]:
        if _cures(climber, settings, chosen, transfers, named, what):
            at_fault = [step for step in found if step.name in chosen]
            named.component = _component(at_fault, what, climber.baseline.flaky)
            return named
    named.component = _component([first], what, unsure=True)
    return named


def _cures(
    climber: Climber, settings: dict[str, Any], names: list[str], transfers: bool, named: Named, what: str
) -> bool:
    """With these steps alone by their definition: does the script pass, twice?"""
    switch = {**settings, "transfer" if transfers else "host": names}
    step = climber.one(Rung.MOCK, (("mock", switch),), "steps")
    if step.verdict is Verdict.GOOD:
        step = climber.repeat(step, 1, "steps", until_bad=True)
    told = names[0] if len(names) == 1 else f"the {len(names)} that differ"
    by = "by the definition of the layout" if transfers else "apart from the runtime"
    if step.verdict is not Verdict.GOOD:
        named.evidence.append(f"{told} alone {by} does not cure it")
        return False
    named.evidence.append(f"with {told} alone {by} it passed {step.runs} of {step.runs} runs")
    return True


def _component(steps: list[WrongStep], what: str, unsure: bool) -> Component:
    first = steps[0]
    names = list(dict.fromkeys(step.name if what == "transfer" else step.tensor for step in steps))
    name = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        name += f" and {len(names) - MOST_NAMED} more"
    detail = first.told if what == "transfer" else f"{first.name}: {first.told}"
    confidence = Confidence.LIKELY if unsure else Confidence.PROVEN
    return Component(kind=what.replace(" ", "_"), name=name, detail=detail, confidence=confidence)


def _exhibit(steps: list[WrongStep], what: str) -> Exhibit:
    rows = [(what, "tensor" if what == "transfer" else "operator", "elements that differ", "what it is")]
    rows += [(step.name, step.tensor, f"{step.wrong} of {step.of}", step.told) for step in steps]
    return Exhibit(
        kind="transfers" if what == "transfer" else "host_calls",
        title=f"each {what} that differs from its definition",
        rows=tuple(rows),
    )


__all__ = ["WrongStep", "name_step", "wrong_steps"]

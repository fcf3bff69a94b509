"""The transfer or host call at fault: each is held against its definition, the wrong ones replaced alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner, Switches
from accel_lab.search.localize.localization import Localization
from accel_lab.search.proof import prove_component

from .replacements import Ask, Reading

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


def name_step(runner: LadderRunner, reading: Reading, main: Switches) -> Localization:
    """The steps whose replacement alone cures, or an empty answer."""
    transfers = reading.out is Ask.TRANSFER
    if not transfers and reading.out is not Ask.HOST:
        return Localization()
    settings = dict(dict(main)["mock"])
    traced = runner.one(Rung.MOCK, (("mock", {**settings, "steps": True}),), "steps")
    found = wrong_steps(traced.outcome, transfers)
    what = "transfer" if transfers else "host call"
    if not found:
        return Localization(evidence=[f"no single {what} of a traced run differs from its definition"])
    first = found[0]
    named = Localization(
        evidence=[
            f"the first {what} that differs from its definition is {first.name}, {first.wrong} of {first.of} "
            f"elements ({first.told})"
        ],
        exhibits=[_exhibit(found, what)],
    )
    names = list(dict.fromkeys(step.name for step in found))
    groups = [names[:1], names] if len(names) > 1 else [names]
    for number, chosen in enumerate(groups, 1):
        cure = _cure(runner, settings, chosen, transfers)
        told = chosen[0] if len(chosen) == 1 else f"the {len(chosen)} that differ"
        by = "by the definition of the layout" if transfers else "apart from the runtime"
        component = _component([step for step in found if step.name in chosen], what)
        if not runner.baseline.flaky:
            component, _ = prove_component(runner, component, cure, traced, comparisons=number)
        if cure.verdict is Verdict.GOOD and component.confidence is not Confidence.INCONCLUSIVE:
            named.evidence.append(f"with {told} alone {by} it passes")
            named.component = component
            return named
        named.evidence.append(f"{told} alone {by} does not cure it")
    named.component = _component([first], what)
    return named


def _cure(runner: LadderRunner, settings: dict[str, Any], names: list[str], transfers: bool) -> Step:
    """The run with these steps alone by their definition."""
    switch = {**settings, "transfer" if transfers else "host": names}
    return runner.one(Rung.MOCK, (("mock", switch),), "steps")


def _component(steps: list[WrongStep], what: str) -> Component:
    first = steps[0]
    names = list(dict.fromkeys(step.name if what == "transfer" else step.tensor for step in steps))
    name = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        name += f" and {len(names) - MOST_NAMED} more"
    detail = first.told if what == "transfer" else f"{first.name}: {first.told}"
    return Component(kind=what.replace(" ", "_"), name=name, detail=detail)


def _exhibit(steps: list[WrongStep], what: str) -> Exhibit:
    rows = [(what, "tensor" if what == "transfer" else "operator", "elements that differ", "what it is")]
    rows += [(step.name, step.tensor, f"{step.wrong} of {step.of}", step.told) for step in steps]
    return Exhibit(
        kind="transfers" if what == "transfer" else "host_calls",
        title=f"each {what} that differs from its definition",
        rows=tuple(rows),
    )


__all__ = ["WrongStep", "name_step", "wrong_steps"]

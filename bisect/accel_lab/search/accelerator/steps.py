"""Finds the transfer or host call at fault: compares each with its definition, replaces the wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence
from accel_lab.core.verdict import Verdict
from accel_lab.search.localize.localization import Localization
from accel_lab.search.proof import prove_component

from .accelerator import MOCK, Accelerator
from .case import Case
from .replacements import Reading, Replacement

#: Maximum steps named when several are at fault together.
MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class WrongStep:
    """One transfer or host call that differs from its definition (``mock.runtime.step_check``).

    ``wrong`` of ``of`` elements differ. ``layout`` is empty for a host call.
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
    def words(self) -> str:
        """Describes the tensor: dtype, shape, strides, offset, layout and source."""
        text = f"{self.dtype} {list(self.shape)}"
        if self.layout:
            text += f", host strides {list(self.strides)}, offset {self.offset}; on the device {self.layout}"
        return text + (f"; {self.source}" if self.source else "")


def wrong_steps(outcome: Outcome, transfers: bool, accelerator: Accelerator = MOCK) -> list[WrongStep]:
    """Returns the wrong transfers (or host calls) of a compared run, in execution order."""
    rows = (accelerator.facts(outcome).get("steps") or {}).get("wrong") or ()
    found = [WrongStep.from_json(row) for row in rows]
    return [step for step in found if (step.kind != "host_call") is transfers]


def name_step(case: Case, reading: Reading) -> Localization:
    """Localizes the steps whose replacement alone makes the failure disappear; else the result is empty."""
    transfers = reading.passing_row is Replacement.TRANSFER
    if not transfers and reading.passing_row is not Replacement.HOST:
        return Localization()
    runner, accelerator = case.runner, case.accelerator
    traced = runner.one(accelerator.rung, accelerator.switches(options={"steps": True}), "steps")
    found = wrong_steps(traced.outcome, transfers, accelerator)
    what = "transfer" if transfers else "host call"
    if not found:
        none = Evidence.of(EvidenceKind.NO_STEP_DIFFERS, host_call=not transfers)
        return Localization(evidence=[none])
    first = found[0]
    named = Localization(
        evidence=[
            Evidence.of(
                EvidenceKind.FIRST_WRONG_STEP,
                host_call=not transfers,
                name=first.name,
                wrong=first.wrong,
                of=first.of,
                tensor=first.words,
            )
        ],
        exhibits=[_exhibit(found, what)],
    )
    names = list(dict.fromkeys(step.name for step in found))
    groups = [names[:1], names] if len(names) > 1 else [names]
    for number, chosen in enumerate(groups, 1):
        replaced = _replaced(case, chosen, transfers)
        component = _component([step for step in found if step.name in chosen], what)
        if not runner.baseline.flaky:
            component, _ = prove_component(runner, component, replaced, traced, comparisons=number)
        if replaced.verdict is Verdict.GOOD and component.confidence is not Confidence.INCONCLUSIVE:
            fixed = Evidence.of(EvidenceKind.STEPS_FIX, host_call=not transfers, steps=chosen)
            named.evidence.append(fixed)
            named.component = component
            return named
        named.evidence.append(
            Evidence.of(EvidenceKind.STEPS_DO_NOT_FIX, host_call=not transfers, steps=chosen)
        )
    named.component = _component([first], what)
    return named


def _replaced(case: Case, names: list[str], transfers: bool) -> Step:
    options = {"transfer" if transfers else "host": names}
    return case.runner.one(case.accelerator.rung, case.accelerator.switches(options=options), "steps")


def _component(steps: list[WrongStep], what: str) -> Component:
    first = steps[0]
    names = list(dict.fromkeys(step.name if what == "transfer" else step.tensor for step in steps))
    name = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        name += f" and {len(names) - MOST_NAMED} more"
    detail = first.words if what == "transfer" else f"{first.name}: {first.words}"
    return Component(kind=what.replace(" ", "_"), name=name, detail=detail)


def _exhibit(steps: list[WrongStep], what: str) -> Exhibit:
    rows = [(what, "tensor" if what == "transfer" else "operator", "elements that differ", "what it is")]
    rows += [(step.name, step.tensor, f"{step.wrong} of {step.of}", step.words) for step in steps]
    return Exhibit(
        kind="transfers" if what == "transfer" else "host_calls",
        title=f"each {what} that differs from its definition",
        rows=tuple(rows),
    )

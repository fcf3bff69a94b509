"""Finds the first kernel that differs from the graph, from one traced run compared kernel by kernel."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.localize.localization import Localization
from accel_lab.search.proof import prove_component

from .accelerator import BACK_ENDS, FRONT_ENDS, MOCK, Accelerator
from .case import Case
from .replacements import Reading

#: Matches the message of a refused spec (``mock.spec.problem``).
_REFUSED = re.compile(r"SpecError: kernel (\S{1,300}): (.{1,2000}?) \(rule ([\w-]{1,80})\)", re.S)
#: Maximum rows of a table in the report.
MOST_ROWS = 30


@dataclass(frozen=True, kw_only=True)
class TracedKernel:
    """One kernel of a traced run (``mock.runtime.kernel_trace``), as recorded by the child.

    ``graph`` is the distance of its values from those of the ATen nodes that it computes, run by torch on the
    host (None: not comparable). ``back_end`` is the distance from the reference back end on the same bytes. A
    negative distance means NaN or inf against a number.
    """

    program: str
    call: int
    name: str
    origins: tuple[str, ...]
    source: str
    graph: float | None
    back_end: float | None
    spec: str
    loop_ir: str
    script: str

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TracedKernel:
        return cls(
            program=data["program"],
            call=data["call"],
            name=data["name"],
            origins=tuple(data["origins"]),
            source=data["source"],
            graph=data["graph"],
            back_end=data["back_end"],
            spec=data.get("spec", ""),
            loop_ir=data.get("loop_ir", ""),
            script=data.get("script", ""),
        )


def kernels_of(outcome: Outcome, accelerator: Accelerator = MOCK) -> list[TracedKernel]:
    """Returns the kernels of a traced run, in execution order."""
    trace = accelerator.facts(outcome).get("kernels") or ()
    return [TracedKernel.from_json(entry) for entry in trace]


def first_diverging(kernels: list[TracedKernel], stage: Stage) -> TracedKernel | None:
    """Returns the first kernel that is wrong in the way a fault of the stage shows, or None."""
    for kernel in kernels:
        wrong = kernel.back_end if stage in BACK_ENDS else kernel.graph
        if wrong:
            return kernel
    return None


def name_kernel(case: Case, reading: Reading) -> Localization:
    """Localizes the first diverging kernel; the result is empty if there is none."""
    accelerator = case.accelerator
    if reading.stage is None or reading.stage not in BACK_ENDS | FRONT_ENDS:
        return Localization()
    traced = case.runner.one(accelerator.rung, accelerator.switches(options={"trace": True}), "kernels")
    kernels = kernels_of(traced.outcome, accelerator)
    found = first_diverging(kernels, reading.stage)
    refused = _refused(traced.outcome)
    if found is None and refused is not None and reading.stage in FRONT_ENDS:
        return refused
    if found is None:
        return Localization(evidence=[Evidence.of(EvidenceKind.NO_KERNEL_DIFFERS)] if kernels else [])
    named = Localization(evidence=[_first(found, reading.stage)], exhibits=_exhibits(kernels, found))
    named.component = Component(
        kind="kernel",
        name=found.name,
        detail="; ".join(filter(None, (", ".join(found.origins), found.source))),
    )
    if reading.stage in BACK_ENDS:
        _alone(case, found, named, traced)
    return named


def _refused(outcome: Outcome) -> Localization | None:
    """Returns the kernel whose spec the verifier refused, so that nothing ran."""
    text = outcome.raised.message if outcome.raised is not None else ""
    match = _REFUSED.search(text)
    if match is None:
        return None
    kernel, why, rule = match.groups()
    return Localization(
        component=Component(kind="kernel", name=kernel, detail=f"rule {rule}", confidence=Confidence.LIKELY),
        evidence=[Evidence.of(EvidenceKind.SPEC_REFUSED, kernel=kernel, why=why, rule=rule)],
    )


def _alone(case: Case, found: TracedKernel, named: Localization, traced: Step) -> None:
    """Runs only that kernel on the reference back end and notes whether the script then passes."""
    assert named.component is not None
    runner, accelerator = case.runner, case.accelerator
    by_reference = accelerator.switches(options={"by_reference": [found.name]})
    step = runner.one(accelerator.rung, by_reference, "kernels")
    if step.verdict is Verdict.GOOD and not runner.baseline.flaky:
        proven, _ = prove_component(runner, named.component, step, traced, comparisons=1)
        if proven.confidence is not Confidence.INCONCLUSIVE:
            named.component = proven
            named.evidence.append(Evidence.of(EvidenceKind.KERNEL_FIXES, kernel=found.name))
            return
    elif step.verdict is Verdict.GOOD:
        named.evidence.append(Evidence.of(EvidenceKind.KERNEL_FIXES, kernel=found.name))
        return
    named.evidence.append(Evidence.of(EvidenceKind.KERNEL_DOES_NOT_FIX))


def _first(found: TracedKernel, stage: Stage) -> Evidence:
    """Returns the first kernel that differs, as evidence against a back end or a front end."""
    if stage in BACK_ENDS:
        return Evidence.of(
            EvidenceKind.FIRST_KERNEL_OF_BACK_END,
            kernel=found.name,
            program=found.program,
            nodes=found.origins,
            source=found.source,
            distance=_far(found.back_end),
        )
    return Evidence.of(
        EvidenceKind.FIRST_KERNEL_OF_GRAPH,
        kernel=found.name,
        program=found.program,
        nodes=found.origins,
        source=found.source,
        distance=_far(found.graph),
    )


def _far(distance: float | None) -> str:
    if distance is None:
        return "not comparable"
    if distance < 0:
        return "NaN or inf against a number"
    return f"off by {distance:.3g}" if distance else "the same"


def _exhibits(kernels: list[TracedKernel], found: TracedKernel) -> list[Exhibit]:
    place = kernels.index(found)
    start = max(0, place - MOST_ROWS // 2)
    shown = kernels[start : start + MOST_ROWS]
    rows = [("kernel", "ATen nodes", "against the graph", "between the back ends")]
    rows += [(k.name, ", ".join(k.origins), _far(k.graph), _far(k.back_end)) for k in shown]
    exhibits = [
        Exhibit(
            kind="kernels",
            title=f"kernel by kernel, up to and beyond the first that differs ({found.name})",
            rows=tuple(rows),
        )
    ]
    if found.spec:
        exhibits.append(
            Exhibit(kind="kernel_spec", title=f"the spec of kernel {found.name}", text=_pretty(found.spec))
        )
    if found.loop_ir:
        exhibits.append(
            Exhibit(kind="loop_ir", title=f"the loop IR of kernel {found.name}", text=found.loop_ir)
        )
    if found.script:
        exhibits.append(
            Exhibit(
                kind="kernel_script",
                title=f"kernel {found.name} by itself: a script that exits with 1 while its values differ",
                text=found.script,
            )
        )
    return exhibits


def _pretty(spec: str) -> str:
    try:
        return json.dumps(json.loads(spec), indent=1)
    except ValueError:
        return spec

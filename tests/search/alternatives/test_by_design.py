"""By design, Python kernels and baked attributes, on a compiler that is only described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from accel_lab.core.findings import Component
from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Frame, Outcome, Raised
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import BLAMES, Confidence, Rung, Stage
from accel_lab.core.torch_settings import EMULATE_CASTS, FALLBACK_RANDOM
from accel_lab.reporting.words.evidence import words_of
from accel_lab.search.alternatives import by_design, eager_kernel, python_kernel
from accel_lab.search.alternatives.case import NOTHING, Case
from accel_lab.search.ladder import read
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.localization import Localization
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally
from fakes_lab import FakeLab, failing, passing

CHECK = Raised(
    type="AssertionError", message="not equal", frames=(Frame(file="s.py", line=9, function="<module>"),)
)


def refused(line: int = 9, **facts: Any) -> Outcome:
    frames = (replace(CHECK.frames[0], line=line),)
    return replace(failing(kind="AssertionError", facts=facts), raised=replace(CHECK, frames=frames))


class Lab(FakeLab):
    """``wrong`` says which outcomes differ from the uncompiled run, with and without the float64 run."""

    wrong: Callable[[Outcome, bool], list[Any]] = staticmethod(lambda got, referenced: [])  # type: ignore[assignment]

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        return self.wrong(got, reference is not None)


def case_of(answer: Callable[[Probe], Outcome], start: Rung, lab: Lab | None = None) -> Case:
    lab = lab or Lab()
    lab.answer = answer
    probe = Probe(program=Program(path="s.py", sha256="0"))
    base = Baseline(target=signature_of(refused()), uncompiled=passing(), tally=Tally(runs=9, failures=9))
    runner = LadderRunner(lab=lab, probe=probe, baseline=base)
    rungs = [Rung.UNCOMPILED, Rung.DYNAMO, Rung.AOT, Rung.PARTITION, Rung.DECOMP, Rung.FX, Rung.KERNEL]
    ladder = runner.ask((rung, ()) for rung in rungs)
    reading = read([(step.rung, step.verdict) for step in ladder])
    return Case(runner=runner, ladder=ladder, reading=reading, start=start, stage=BLAMES[start])


def switches(probe: Probe) -> dict[str, Any]:
    return dict(probe.switches)


ORDER = [Rung.UNCOMPILED, Rung.DYNAMO, Rung.AOT, Rung.PARTITION, Rung.DECOMP, Rung.FX, Rung.KERNEL]


def fails_from(rung: Rung, probe: Probe) -> bool:
    return ORDER.index(probe.rung) >= ORDER.index(rung)


@pytest.mark.parametrize(
    ("refusals", "verdict"),
    [(3, "by design"), (2, "open"), (0, "ruled out")],
    ids=["all", "some", "none"],
)
def test_other_random_numbers_are_by_design_only_if_the_check_refuses_all(
    refusals: int, verdict: str
) -> None:
    def answer(probe: Probe) -> Outcome:
        seed = switches(probe).get("other_random")
        if seed is not None:
            return refused() if seed <= refusals else passing()
        aligned = (switches(probe).get("inductor") or {}).get("fallback_random")
        return refused(random=True) if fails_from(Rung.DECOMP, probe) and not aligned else passing()

    case = case_of(answer, Rung.DECOMP)
    assert by_design.RANDOM_NUMBERS.applies(case) and not by_design.ROUNDINGS_OF_VALUES.applies(case)
    ruling = by_design.RANDOM_NUMBERS.ask(case)
    if verdict == "by design":
        assert ruling.by_design is not None and ruling.by_design.setting == FALLBACK_RANDOM.code
    else:
        assert ruling.by_design is None and ruling.considered is not None
        assert ruling.considered.open is (verdict == "open")


def test_a_failure_at_another_line_is_not_the_same_check() -> None:
    def answer(probe: Probe) -> Outcome:
        if "other_random" in switches(probe):
            return refused(line=12)
        return refused(random=True) if fails_from(Rung.DECOMP, probe) else passing()

    ruling = by_design.RANDOM_NUMBERS.ask(case_of(answer, Rung.DECOMP))
    assert ruling.by_design is None and ruling.considered is not None and not ruling.considered.open


def test_what_the_compiler_raises_is_never_by_design() -> None:
    raised = replace(CHECK, frames=(*CHECK.frames, Frame(file="torch/_inductor/ir.py", line=3, function="f")))

    def answer(probe: Probe) -> Outcome:
        outcome = refused(random=True)
        return replace(outcome, raised=raised) if fails_from(Rung.DECOMP, probe) else passing()

    case = case_of(answer, Rung.DECOMP)
    assert not by_design.RANDOM_NUMBERS.applies(case) and not by_design.ROUNDINGS_OF_VALUES.applies(case)


def test_a_failure_that_begins_at_autograd_is_never_by_design() -> None:
    case = case_of(lambda p: refused(random=True) if fails_from(Rung.AOT, p) else passing(), Rung.AOT)
    assert not by_design.RANDOM_NUMBERS.applies(case)


def rounding_case(*, cured: bool, refuses: bool, further: bool = False) -> Case:
    def answer(probe: Probe) -> Outcome:
        if "other_rounding" in switches(probe):
            return refused() if refuses else passing()
        if cured and (switches(probe).get("inductor") or {}).get("emulate_precision_casts"):
            return passing()
        return refused(dtypes=["bfloat16"]) if fails_from(Rung.KERNEL, probe) else passing()

    lab = Lab()
    lab.wrong = lambda got, referenced: [object()] if further and referenced else []
    return case_of(answer, Rung.KERNEL, lab)


def test_roundings_of_low_precision_are_by_design_with_the_setting() -> None:
    ruling = by_design.ROUNDINGS_OF_VALUES.ask(rounding_case(cured=True, refuses=False))
    assert ruling.by_design is not None and ruling.by_design.setting == EMULATE_CASTS.code


def test_eager_values_that_float64_refutes_leave_it_open() -> None:
    """gelu(inf) is nan in eager's vectorised kernel and inf in compiled code and in float64."""

    def answer(probe: Probe) -> Outcome:
        return refused() if fails_from(Rung.DECOMP, probe) else passing()

    lab = Lab()
    lab.eager_off = True
    ruling = by_design.ROUNDINGS_OF_VALUES.ask(case_of(answer, Rung.DECOMP, lab))
    assert ruling.by_design is None and ruling.considered is not None and ruling.considered.open
    assert "eager's own kernel may be wrong" in words_of(ruling.considered.why)


@pytest.mark.parametrize(
    ("part", "off", "far", "named"),
    [
        (Component(kind="decomposition", name="aten.gelu.default"), True, False, True),
        (Component(kind="op", name="aten.gelu.default"), True, False, True),
        (Component(kind="decomposition", name="aten.gelu.default"), False, False, False),
        (Component(kind="decomposition", name="aten.gelu.default"), True, True, False),
        (Component(kind="fusion", name="aten.gelu.default"), True, False, False),
        (Component(kind="op", name="aten.gelu.default, aten.exp.default"), True, False, False),
        (None, True, False, False),
    ],
    ids=["decomposition", "op", "float64 agrees", "both wrong", "no operator", "two", "unknown"],
)
def test_eagers_own_kernel_is_named_where_float64_refutes_one_operator(
    part: Component | None, off: bool, far: bool, named: bool
) -> None:
    lab = Lab()
    lab.eager_off = off
    lab.wrong = lambda got, referenced: [object()] if far and referenced else []
    case = case_of(lambda p: refused() if fails_from(Rung.DECOMP, p) else passing(), Rung.DECOMP, lab)
    case.localization = Localization(component=part)
    considered = by_design.ROUNDINGS_OF_VALUES.ask(case).considered
    assert considered is not None
    case.considered = [considered]
    alternative = eager_kernel.ALTERNATIVE
    ruling = alternative.ask(case) if alternative.applies(case) else NOTHING
    assert (ruling.culprit is not None) is named
    assert bool(ruling.warnings) is (off and not far and not named)
    if ruling.culprit is not None:
        assert ruling.culprit.stage is Stage.EAGER and ruling.culprit.confidence is Confidence.LIKELY
        assert ruling.culprit.component == Component(kind="op", name="aten.gelu.default")


def test_a_comparison_bit_by_bit_that_no_setting_cures_stays_open() -> None:
    ruling = by_design.ROUNDINGS_OF_VALUES.ask(rounding_case(cured=False, refuses=True))
    assert ruling.by_design is None and ruling.considered is not None
    assert ruling.considered.open and "bit by bit" in words_of(ruling.considered.why)


def test_a_check_that_accepts_other_roundings_found_something_else() -> None:
    ruling = by_design.ROUNDINGS_OF_VALUES.ask(rounding_case(cured=False, refuses=False))
    assert ruling.by_design is None and ruling.considered is not None and not ruling.considered.open


def kernels(*ops: str, different: bool = False) -> dict[str, Any]:
    difference = {"what": "output 0: memory", "native": "tensor argument 0 itself", "python": "new memory"}
    rows = [{"op": op, "kernel": "torch._decomp." + op, "different": [difference] * different} for op in ops]
    return {"python_kernels": {"kernels": rows}}


@pytest.mark.parametrize("different", [True, False])
def test_a_python_kernel_is_blamed_if_it_differs_and_its_removal_cures(different: bool) -> None:
    def answer(probe: Probe) -> Outcome:
        asked = switches(probe)
        if probe.rung is Rung.DYNAMO:
            return passing(facts=kernels("a", "b", different=different))
        cured = "b" in asked.get("native_kernels", ())
        return refused(**kernels("a", "b")) if fails_from(Rung.AOT, probe) and not cured else passing()

    case = case_of(answer, Rung.AOT)
    assert python_kernel.ALTERNATIVE.applies(case)
    ruling = python_kernel.ALTERNATIVE.ask(case)
    if different:
        assert ruling.culprit is not None and ruling.culprit.stage is Stage.DECOMPOSITION
        part = ruling.culprit.component
        assert part is not None and part.name == "b" and ruling.isolates
        assert ruling.passing_run is not None
        assert dict(ruling.passing_run.settings)["native_kernels"] == ["b"]
    else:
        assert ruling.culprit is None and ruling.considered is not None and ruling.considered.open


def test_python_kernels_below_a_native_kernel_are_removed_with_it() -> None:
    """The native kernel of a composite operator calls another operator, whose Python kernel has the fault."""

    def answer(probe: Probe) -> Outcome:
        native = switches(probe).get("native_kernels", ())
        if probe.rung is Rung.DYNAMO:
            return passing(facts=kernels("a", "top", different=True))
        used = ["a", "top" if "top" not in native else "below"]
        fails = fails_from(Rung.AOT, probe) and not {"top", "below"} <= set(native)
        return refused(**kernels(*(op for op in used if op not in native))) if fails else passing()

    ruling = python_kernel.ALTERNATIVE.ask(case_of(answer, Rung.AOT))
    assert ruling.culprit is not None and ruling.culprit.component is not None
    assert ruling.culprit.component.name == "top" and ruling.isolates
    assert ruling.passing_run is not None
    assert dict(ruling.passing_run.settings)["native_kernels"] == ["below", "top"]
    assert "those of below, which it calls" in words_of(ruling.culprit.evidence[0])


def test_without_a_python_kernel_one_question_is_asked() -> None:
    case = case_of(lambda p: refused(**kernels()) if fails_from(Rung.AOT, p) else passing(), Rung.AOT)
    ruling = python_kernel.ALTERNATIVE.ask(case)
    assert ruling.considered is not None and not ruling.considered.open
    assert case.runner.counts["Python kernels"] == 1

"""The first wrong value between kernels: which row, what is said of fusion, when nothing is asked."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.divergence import first_divergence
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally
from fakes_lab import FakeLab, failing, passing


def row(node: str, differs: bool = False, inputs: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    row = {
        "node": node,
        "op": f"aten.{node}",
        "shape": [2, 3],
        "dtype": "float32",
        "error": 1.0 if differs else 0.0,
        "eager": 1e-8,
        "wrong": 6 if differs else 0,
        "values": "[0] 1 / 0",
        "differs": differs,
        "between": [],
        "inputs": list(inputs),
    }
    return {**row, **changes}


def facts(*rows: dict[str, Any], call: int = 0) -> dict[str, Any]:
    return {"divergence": {"graphs": [{"rows": [], "call": 0}, {"rows": list(rows), "call": call}]}}


ROWS = (row("mm"), row("erf", True, ("mm", "arg0"), between=["neg (aten.neg)"]), row("sum", True, ("erf",)))


class Lab(FakeLab):
    """Finds a difference in every failing run."""

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        compared = SimpleNamespace(comparison=SimpleNamespace(max_abs_error=1.0))
        return [compared] if got.status is not Status.OK else []


def diverge(
    kept: Outcome,
    as_is: Outcome,
    *,
    stage: Stage = Stage.CODEGEN,
    lab: type[FakeLab] = Lab,
    failures: int = 2,
) -> tuple[Exhibit | None, FakeLab]:
    def answer(probe: Probe) -> Outcome:
        return kept if dict(probe.switches)["divergence"]["realize"] else as_is

    made = lab(answer=answer)
    target = made.signature(failing()) or Signature(kind="exception")
    base = Baseline(target=target, tally=Tally(runs=2, failures=failures), uncompiled=passing())
    runner = LadderRunner(lab=made, probe=Probe(program=Program(path="x.py")), baseline=base)
    top = Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing())
    diverged = first_divergence(runner, stage, [top])
    return (None if diverged is None else diverged.exhibit), made


def test_the_first_wrong_node_is_shown_with_its_inputs() -> None:
    exhibit, lab = diverge(failing(facts=facts(*ROWS)), passing())
    assert exhibit is not None and exhibit.kind == "divergence"
    assert exhibit.title == "first wrong value: erf (aten.erf); its inputs agree"
    assert [line[-1] for line in exhibit.rows[1:]] == ["", "first", "differs"]
    assert "input mm: [0] 1 / 0" in exhibit.text
    assert "or not compared: arg0" in exhibit.text
    assert "neg (aten.neg)" in exhibit.text
    assert len(lab.asked) == 1


def test_a_failure_that_needs_fusion_is_said_to() -> None:
    exhibit, lab = diverge(passing(), failing(facts=facts(*ROWS, call=2)))
    assert exhibit is not None
    assert "first wrong value: erf" in exhibit.title
    assert "needs fusion" in exhibit.text and "call 3" in exhibit.text
    assert len(lab.asked) == 2


def test_no_first_node_is_claimed_where_every_buffer_agrees() -> None:
    exhibit, _ = diverge(passing(), failing(facts=facts(row("mm"))))
    assert exhibit is not None and exhibit.title.startswith("no buffer")
    assert [line[-1] for line in exhibit.rows[1:]] == [""]


def test_an_instrumented_run_that_passes_or_fails_otherwise_tells_nothing() -> None:
    other = failing("something else", facts=facts(*ROWS))
    assert diverge(passing(facts=facts(*ROWS)), passing(facts=facts(*ROWS)))[0] is None
    assert diverge(other, other)[0] is None


def test_long_tables_keep_the_first_wrong_row() -> None:
    many = [row(f"n{i}") for i in range(200)]
    exhibit, _ = diverge(failing(facts=facts(*many, *ROWS)), passing())
    assert exhibit is not None and len(exhibit.rows) <= 34
    assert [line[0] for line in exhibit.rows[1:] if line[-1] == "first"] == ["erf"]


def test_nothing_is_asked_of_crashes_other_stages_and_flaky_scripts() -> None:
    bad = failing(facts=facts(*ROWS))
    for exhibit, lab in (
        diverge(bad, bad, lab=FakeLab),
        diverge(bad, bad, stage=Stage.DYNAMO),
        diverge(bad, bad, failures=1),
    ):
        assert exhibit is None and lab.asked == []


def test_a_region_that_raised_has_no_values_to_compare() -> None:
    raised = failing(facts={"caught": [{"region": 0}]})
    lab = Lab(answer=lambda probe: failing(facts=facts(*ROWS)))
    base = Baseline(target=lab.signature(raised), tally=Tally(runs=2, failures=2), uncompiled=passing())
    runner = LadderRunner(lab=lab, probe=Probe(program=Program(path="x.py")), baseline=base)
    top = Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=raised)
    assert first_divergence(runner, Stage.CODEGEN, [top]) is None and lab.asked == []


def test_a_fault_that_the_lab_itself_noticed_counts_as_wrong_numbers() -> None:
    lab = FakeLab(answer=lambda probe: replace(passing(), facts=facts(*ROWS)))
    target = Signature(kind="values")
    base = Baseline(target=target, tally=Tally(runs=2, failures=2), uncompiled=passing())
    runner = LadderRunner(lab=lab, probe=Probe(program=Program(path="x.py")), baseline=base)
    first_divergence(runner, Stage.CODEGEN, [Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=passing())])
    assert lab.asked


def test_what_the_table_of_switches_has_told_is_not_asked_again() -> None:
    lab = Lab(answer=lambda probe: failing(facts=facts(*ROWS)))
    base = Baseline(target=lab.signature(failing()), tally=Tally(runs=2, failures=2), uncompiled=passing())
    runner = LadderRunner(lab=lab, probe=Probe(program=Program(path="x.py")), baseline=base)
    top = Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing())
    fusion = Step(rung=Rung.KERNEL, switch="fusion", verdict=Verdict.GOOD, outcome=passing())
    diverged = first_divergence(runner, Stage.CODEGEN, [top], ablation=[fusion])
    assert diverged is not None and "needs fusion" in diverged.exhibit.text
    assert len(lab.asked) == 1


def test_a_single_operator_that_makes_the_first_wrong_value_is_likely_the_component() -> None:
    def component(*rows: dict[str, Any]) -> Component | None:
        lab = Lab(answer=lambda probe: failing(facts=facts(*rows)))
        base = Baseline(
            target=lab.signature(failing()), tally=Tally(runs=2, failures=2), uncompiled=passing()
        )
        runner = LadderRunner(lab=lab, probe=Probe(program=Program(path="x.py")), baseline=base)
        top = Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing())
        diverged = first_divergence(runner, Stage.LOWERING, [top])
        assert diverged is not None
        return diverged.component

    right, wrong = row("mm"), row("erf", True, ("mm",))
    named = component(right, wrong)
    assert named is not None and (named.name, named.confidence) == ("aten.erf", Confidence.LIKELY)
    assert component(right, {**wrong, "between": ["neg (aten.neg)"]}) is None
    assert component(right) is None

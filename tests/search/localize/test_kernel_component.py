"""The operator, fusion or buffer at fault in the kernel stage, and what is shown of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.findings import Step
from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import sentences
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.components import localize_component
from accel_lab.search.localize.kernel import MOST, MOST_CHOICES
from accel_lab.search.localize.kernel_exhibit import MOST_LINES, compile_error
from accel_lab.search.localize.localization import Localization
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally
from fakes_lab import FakeLab, failing, passing

OPS = [f"n{i} target=aten.op{i}.default#0" for i in range(12)]
AGAIN = "again target=aten.op4.default#0"
FUSIONS = [
    "aten.op3.default + aten.op5.default#0:buf1+buf2",
    "aten.op7.default + aten.op8.default#0:buf3+buf4",
]
REUSES = ["aten.op9.default written over buf5#0:buf6"]
APPLIED = {"lowerings": OPS, "fusions": FUSIONS, "reuses": REUSES}
Fails = Callable[[set[str], set[str]], bool]


def lowered(probe: Probe) -> set[str]:
    off = dict(probe.switches).get("off", {}).get("lowerings", [])
    return {op for op in [*OPS, AGAIN] if op not in off}


def chosen(probe: Probe) -> set[str]:
    off = dict(probe.switches).get("off", {})
    return {key for group in ("fusions", "reuses") for key in APPLIED[group] if key not in off.get(group, [])}


def name(
    fails: Fails,
    *cures: str,
    stage: Stage = Stage.CODEGEN,
    facts: dict[str, Any] | None = None,
    failure: Outcome | None = None,
    tally: Tally | None = None,
) -> tuple[Localization, FakeLab]:
    """Name the component of a fake program; ``cures`` are the switches without which it passes."""
    failure = failure or failing()
    known = {"applied": APPLIED, **(facts or {})}

    def answer(probe: Probe) -> Outcome:
        bad = fails(lowered(probe), chosen(probe))
        return replace(failure if bad else passing(), facts=known)

    lab = FakeLab(answer=answer)
    base = Baseline(target=signature_of(failure), tally=tally or Tally(runs=9, failures=9))
    runner = LadderRunner(lab=lab, probe=Probe(program=Program(path="x.py")), baseline=base)
    at = Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=replace(failure, facts=known), failures=1)
    ablation = [Step(rung=Rung.KERNEL, switch=s, verdict=Verdict.GOOD, outcome=passing()) for s in cures]
    return localize_component(runner, stage, at, ablation=ablation), lab


@given(st.sampled_from(OPS))
def test_one_operator_is_proven_necessary_and_sufficient(guilty: str) -> None:
    named, lab = name(lambda ops, _: guilty in ops, "fallback", "vectorisation")
    assert named.component is not None
    assert (named.component.kind, named.component.confidence) == ("op", Confidence.PROVEN)
    assert named.component.name == guilty.split("target=")[1].split("#")[0]
    assert named.component.detail == f"node {guilty.split()[0]}; only with vectorisation"
    assert any("with only" in line and "still fails" in line for line in sentences(named.evidence))
    assert sum(not probe.attempt for probe in lab.asked) <= 9


def test_the_same_operator_twice_is_one_culprit() -> None:
    twice = {"applied": {"lowerings": [*OPS, AGAIN]}}
    named, _ = name(lambda ops, _: bool({OPS[4], AGAIN} & ops), "fallback", facts=twice)
    assert named.component is not None
    assert (named.component.name, named.component.confidence) == ("aten.op4.default", Confidence.PROVEN)


def test_without_sufficiency_nothing_is_proven() -> None:
    """Leaving out op0 cures, but too much is needed beside it to say that it is op0's fault."""
    needed = set(OPS[::2])
    named, _ = name(lambda ops, _: needed <= ops, "fallback")
    assert named.component is not None and named.component.confidence is Confidence.LIKELY


def test_sufficiency_decides_where_several_cure_alone() -> None:
    """op4 is at fault; leaving out its neighbour op2 happens to cure as well."""
    named, _ = name(lambda ops, _: OPS[4] in ops and (OPS[2] in ops or not ops - {OPS[4], AGAIN}), "fallback")
    assert named.component is not None
    assert named.component.name == "aten.op4.default"
    assert named.component.confidence is Confidence.PROVEN


def test_operators_that_are_only_wrong_together_are_all_named() -> None:
    named, _ = name(lambda ops, _: {OPS[3], OPS[5]} <= ops, "fallback")
    assert named.component is not None
    assert set(named.component.name.split(", ")) == {"aten.op3.default", "aten.op5.default"}
    assert named.component.confidence is Confidence.LIKELY


def test_two_independent_operators_are_both_named_and_not_proven() -> None:
    named, _ = name(lambda ops, _: OPS[1] in ops or OPS[10] in ops, "fallback")
    assert named.component is not None
    assert set(named.component.name.split(", ")) == {"aten.op1.default", "aten.op10.default"}
    assert named.component.confidence is Confidence.LIKELY


def test_the_fusion_is_named_where_two_operators_must_meet_in_one_kernel() -> None:
    named, _ = name(lambda ops, on: {OPS[3], OPS[5]} <= ops and FUSIONS[0] in on, "fallback", "fusion")
    assert named.component is not None
    assert (named.component.kind, named.component.confidence) == ("fusion", Confidence.PROVEN)
    assert named.component.name == "aten.op3.default + aten.op5.default"
    assert "only with fusion" in named.component.detail
    assert any("are not fused" in line for line in sentences(named.evidence))


def test_a_scheduler_fault_is_searched_among_fusions_only() -> None:
    named, lab = name(lambda _, on: FUSIONS[1] in on, "fusion", stage=Stage.SCHEDULER)
    assert named.component is not None and named.component.name == "aten.op7.default + aten.op8.default"
    assert all("lowerings" not in dict(p.switches).get("off", {}) for p in lab.asked)


def test_memory_that_is_written_over_is_named() -> None:
    named, _ = name(lambda _, on: REUSES[0] in on, "inplace_buffers", stage=Stage.SCHEDULER)
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("reuse", "aten.op9.default written over buf5")


def test_the_scheduler_is_left_alone_where_no_switch_points_at_it() -> None:
    _, lab = name(lambda ops, _: OPS[0] in ops, "fallback")
    assert all(set(dict(p.switches).get("off", {})) <= {"lowerings"} for p in lab.asked)


def test_nothing_is_named_where_nothing_cures() -> None:
    named, _ = name(lambda *_: True)
    assert named.component is None and named.evidence == []


def test_the_questions_are_bounded_and_an_answer_out_of_questions_is_not_proven_sufficient() -> None:
    odd = set(OPS[::2])
    named, lab = name(lambda ops, on: odd <= ops and bool(on), "fallback", "fusion")
    assert len(lab.asked) <= MOST + MOST_CHOICES + 1
    assert named.component is not None and named.component.confidence is not None


def test_a_flaky_script_is_not_asked() -> None:
    named, lab = name(lambda *_: True, tally=Tally(runs=10, failures=5))
    assert named.component is None and lab.asked == []


# -- what is shown -----------------------------------------------------------------------------

KERNEL = {
    "file": "c1.main.cpp",
    "language": "cpp",
    "text": "\n\nvoid kernel()\n{\n    auto tmp0 = a;\n    auto tmp1 = b;\n}\nint other() {\n}",
    "origins": {OPS[4]: [6], OPS[1]: [5]},
}
BROKEN = failing(
    "C++ compile error\nCommand: g++\nOutput:\n/x/c1.main.cpp:6:13: error: 'b' was not declared\n",
    kind="InductorError",
)


def test_the_kernel_is_shown_with_the_operators_lines() -> None:
    named, lab = name(lambda ops, _: OPS[4] in ops, "fallback", facts={"kernels": [KERNEL]})
    (exhibit,) = named.exhibits
    assert (exhibit.kind, exhibit.language) == ("kernel", "cpp")
    assert [exhibit.text.splitlines()[line - 1] for line in exhibit.marked] == ["    auto tmp1 = b;"]
    assert "other" not in exhibit.text
    assert "aten.op4.default" in exhibit.title
    assert any(dict(probe.switches).get("annotate") is True for probe in lab.asked)


def test_the_kernel_that_holds_both_fused_operators_is_shown() -> None:
    alone = dict(KERNEL, file="c0.cpp", origins={OPS[3]: [5, 6]})
    both = dict(KERNEL, origins={OPS[3]: [5], OPS[5]: [6]})
    named, _ = name(
        lambda _, on: FUSIONS[0] in on, "fusion", stage=Stage.SCHEDULER, facts={"kernels": [alone, both]}
    )
    (exhibit,) = named.exhibits
    assert len(exhibit.marked) == 2
    assert "aten.op3.default, aten.op5.default" in exhibit.title


def test_no_line_is_marked_that_the_child_did_not_tell() -> None:
    silent = dict(KERNEL, origins={})
    named, _ = name(lambda ops, _: OPS[4] in ops, "fallback", facts={"kernels": [silent, silent]})
    assert named.exhibits == []


def test_a_long_kernel_is_cut_around_the_lines() -> None:
    text = "\n".join(f"line {n}" for n in range(1, 1001))
    long = dict(KERNEL, text=text, origins={OPS[4]: [700, 701]})
    named, _ = name(lambda ops, _: OPS[4] in ops, "fallback", facts={"kernels": [long]})
    (exhibit,) = named.exhibits
    lines = exhibit.text.splitlines()
    assert len(lines) <= MOST_LINES
    assert [lines[n - 1] for n in exhibit.marked] == ["line 700", "line 701"]


def test_the_compilers_error_is_shown_with_the_operator_of_its_line() -> None:
    named, _ = name(lambda ops, _: OPS[4] in ops, "fallback", facts={"kernels": [KERNEL]}, failure=BROKEN)
    (exhibit,) = named.exhibits
    assert exhibit.kind == "compile_error"
    assert exhibit.text.splitlines()[exhibit.marked[0] - 1] == "    auto tmp1 = b;"
    assert "'b' was not declared" in exhibit.title and "aten.op4.default" in exhibit.title


def test_the_error_line_alone_makes_an_operator_likely() -> None:
    named, _ = name(lambda *_: True, facts={"kernels": [KERNEL]}, failure=BROKEN)
    assert named.component is not None
    assert (named.component.name, named.component.confidence) == ("aten.op4.default", Confidence.LIKELY)


def test_only_a_compilers_error_is_read_as_one() -> None:
    assert compile_error(BROKEN) == ("c1.main.cpp", 6, "'b' was not declared")
    assert compile_error(failing("/x/c1.main.cpp:6:13: error: told by the script itself")) is None
    assert compile_error(passing()) is None

"""The whole search on a fake lab: right stage, proof by a pair of runs, flaky scripts, doubt kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import line_of, sentences
from fakes_lab import ORDER, STAGES, FakeLab, diagnose, failing, passing


@pytest.mark.parametrize("fault", list(STAGES), ids=str)
def test_each_stage_is_found_and_proven(fault: Rung) -> None:
    found = diagnose(FakeLab(fault=fault))
    assert found.verdict == "fails"
    assert found.culprit is not None
    assert found.culprit.stage is STAGES[fault]
    assert found.culprit.confidence is Confidence.PROVEN
    assert found.confidence is not None and found.confidence >= 0.99


@pytest.mark.parametrize("fault", list(STAGES), ids=str)
def test_proven_rests_on_a_pair_of_runs(fault: Rung) -> None:
    lab = FakeLab(fault=fault)
    diagnose(lab)
    below = max(
        (r for r in ORDER if ORDER.index(r) < ORDER.index(fault) and r is not Rung.META), key=ORDER.index
    )
    repeats = {p.rung for p in lab.asked if p.attempt > 0 and not p.switches}
    assert {below, fault} <= repeats


@pytest.mark.parametrize("fault", list(STAGES), ids=str)
def test_at_most_eight_warm_probes_name_the_stage(fault: Rung) -> None:
    found = diagnose(FakeLab(fault=fault), components=False, witness=False)
    warm_baseline = sum(step.runs for step in found.baseline if step.outcome.warm)
    ladder = found.probes["ladder"] + found.probes.get("meta check", 0) + warm_baseline
    # Dynamo and AOTAutograd read what meta kernels promise: they are checked in two ways.
    assert ladder <= 8 + {Rung.DYNAMO: 1, Rung.AOT: 2}.get(fault, 0)


def test_a_script_that_does_not_fail() -> None:
    found = diagnose(FakeLab(fault=None))
    assert (found.verdict, found.culprits) == ("passes", [])


def test_failing_without_the_compiler_is_eager() -> None:
    found = diagnose(FakeLab(fault=Rung.UNCOMPILED))
    assert found.culprit is not None and found.culprit.stage is Stage.EAGER


@pytest.mark.parametrize("rate", [0.9, 0.7, 0.5])
@pytest.mark.parametrize("fault", [Rung.DYNAMO, Rung.PARTITION, Rung.FX, Rung.KERNEL], ids=str)
def test_a_flaky_script_is_never_wrong_as_proven(fault: Rung, rate: float) -> None:
    right = 0
    for seed in range(40):
        found = diagnose(FakeLab(fault=fault, rate=rate, seed=seed))
        culprit = found.culprit
        if culprit is None:
            continue
        if culprit.confidence is Confidence.PROVEN:
            assert culprit.stage is STAGES[fault], f"seed {seed}"
        right += culprit.stage is STAGES[fault]
    assert right >= 34


def test_a_ladder_that_is_not_monotone_is_not_forced() -> None:
    def cures(probe: Probe) -> bool:
        return probe.rung in (Rung.PARTITION, Rung.DECOMP)

    found = diagnose(FakeLab(fault=Rung.AOT, cures=cures))
    assert any("not monotone" in warning for warning in map(line_of, found.warnings))
    assert found.culprit is None or found.culprit.confidence is Confidence.INCONCLUSIVE


def test_a_warm_process_that_fails_in_another_way_is_not_used_and_not_counted() -> None:
    class Lab(FakeLab):
        def _outcome(self, probe: Probe) -> Outcome:
            outcome = super()._outcome(probe)
            other = failing("another", warm=True)
            return other if outcome.warm and outcome.status is not Status.OK else outcome

    lab = Lab(fault=Rung.FX)
    found = diagnose(lab)
    assert not lab.is_warm
    assert all(not step.outcome.warm for step in found.baseline) and found.failure_rate == 1.0
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.FX_PASSES, Confidence.PROVEN)


def test_another_failure_below_is_evidence_but_no_proof() -> None:
    def answer(probe: Probe) -> Outcome | None:
        if probe.rung is Rung.FX and not probe.switches:
            return failing("something else", kind="RuntimeError")
        return None

    found = diagnose(FakeLab(fault=Rung.LOOPS, answer=answer))
    assert found.culprit is not None
    assert found.culprit.stage is Stage.FX_PASSES
    assert found.culprit.confidence is Confidence.LIKELY


def test_a_broken_compiler_is_the_environment() -> None:
    def answer(probe: Probe) -> Outcome | None:
        if probe.rung is Rung.KERNEL:
            return failing("No working C++ compiler found", kind="InductorError")
        return None

    found = diagnose(FakeLab(fault=Rung.KERNEL, answer=answer, compiler=(False, "/bin/false ended with 1")))
    assert found.culprit is not None
    assert found.culprit.stage is Stage.ENVIRONMENT
    assert found.culprit.confidence is Confidence.PROVEN


def test_a_compiler_that_only_the_script_names_is_the_environment_as_well() -> None:
    """The script sets CXX itself, so the compiler that the lab finds works."""
    said = "No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'g++-99')"

    def answer(probe: Probe) -> Outcome | None:
        return failing(said, kind="InvalidCxxCompiler") if probe.rung is Rung.KERNEL else None

    found = diagnose(FakeLab(fault=Rung.KERNEL, answer=answer, compiler=(True, "g++")))
    assert found.culprit is not None and found.culprit.stage is Stage.ENVIRONMENT
    assert found.culprit.confidence is Confidence.PROVEN
    assert "g++-99" in sentences(found.culprit.evidence)[0]
    other = diagnose(FakeLab(fault=Rung.KERNEL, answer=lambda probe: None, compiler=(True, "g++")))
    assert other.culprit is not None and other.culprit.stage is not Stage.ENVIRONMENT


def test_generated_code_that_is_right_without_fusion_is_not_proven_wrong() -> None:
    def answer(probe: Probe) -> Outcome | None:
        return passing() if "max_fusion_size" in str(probe.switches) else None

    culprit = diagnose(FakeLab(fault=Rung.KERNEL, answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.KERNEL
    assert culprit.confidence is Confidence.LIKELY


def test_fused_loops_that_fail_index_by_index_are_the_schedulers() -> None:
    def answer(probe: Probe) -> Outcome | None:
        if "max_fusion_size" in str(probe.switches):
            return passing()
        return failing() if "together" in str(probe.switches) else None

    culprit = diagnose(FakeLab(fault=Rung.KERNEL, answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.SCHEDULER
    # The pair of runs holds interpreted loops, not the rungs of the ladder.
    assert culprit.confidence is Confidence.LIKELY
    assert any("must not be fused" in line for line in sentences(culprit.evidence))


def told_conflict(**changes: Any) -> dict[str, Any]:
    row = {"kind": "read_write", "buffer": "arg0_1", "kernel": "buf4", "operators": ["aten.sub", "aten.put"]}
    return {**row, "by_contract": False, "points": [[0], [1]], **changes}


def diagnose_conflict(
    *rows: dict[str, Any], rungs: Sequence[Rung] = (Rung.LOOPS, Rung.SCHEDULED), fault: Rung = Rung.KERNEL
) -> Any:
    """The culprit where the interpreter tells of conflicts on ``rungs`` and fails from ``fault`` on."""
    regions = [{"id": 0, "name": "f", "backend": "inductor"}]
    facts = {"regions": regions, "applied": {}, "order_conflicts": list(rows)}

    def answer(probe: Probe) -> Outcome | None:
        if probe.rung not in rungs:
            return None
        ends = failing if ORDER.index(probe.rung) >= ORDER.index(fault) else passing
        return ends(facts=facts)

    return diagnose(FakeLab(fault=Rung.KERNEL, answer=answer)).culprit


def test_loops_that_pass_prove_nothing_if_their_order_matters() -> None:
    culprit = diagnose_conflict(told_conflict())
    assert culprit.stage is Stage.LOWERING and culprit.confidence is Confidence.LIKELY
    assert culprit.component.name == "aten.put"
    words = (
        "the loop that lowering made for aten.put (buf4) reads elements of arg0_1 that other iterations "
        "write: its result depends on the order of the iterations"
    )
    assert words in sentences(culprit.evidence)


def test_a_conflict_of_fused_loops_alone_is_the_schedulers() -> None:
    culprit = diagnose_conflict(told_conflict(kernel="buf3, buf4"), rungs=[Rung.SCHEDULED])
    assert culprit.stage is Stage.SCHEDULER and culprit.confidence is Confidence.LIKELY
    assert any(
        "the scheduler fused for aten.put (buf3, buf4) reads" in line for line in sentences(culprit.evidence)
    )


def test_a_conflict_that_makes_the_loops_fail_is_proven() -> None:
    culprit = diagnose_conflict(told_conflict(), fault=Rung.LOOPS)
    assert culprit.stage is Stage.LOWERING and culprit.confidence is Confidence.PROVEN
    assert any("that other iterations write" in line for line in sentences(culprit.evidence))


@pytest.mark.parametrize("changes", [{"kind": "write_write", "by_contract": True}, {"kind": "unchecked"}])
def test_what_torch_leaves_undefined_keeps_codegen_from_being_proven(changes: dict[str, Any]) -> None:
    culprit = diagnose_conflict(told_conflict(**changes))
    assert culprit.stage is Stage.CODEGEN and culprit.confidence is Confidence.LIKELY
    assert [a.name for a in culprit.alternatives if a.open] == ["order_of_iterations"]


def test_no_conflict_leaves_codegen_proven() -> None:
    culprit = diagnose_conflict()
    assert culprit.stage is Stage.CODEGEN and culprit.confidence is Confidence.PROVEN


def test_a_crash_of_the_generator_is_not_blamed_on_the_order() -> None:
    crash = Raised(type="CppCompileError", message="C++ compile error", frames=())
    regions = [{"id": 0, "name": "f", "backend": "inductor"}]
    told = {"regions": regions, "applied": {}, "order_conflicts": [told_conflict()]}

    def answer(probe: Probe) -> Outcome | None:
        if probe.rung in (Rung.LOOPS, Rung.SCHEDULED):
            return passing(facts=told)
        if probe.rung is Rung.KERNEL:
            return Outcome(status=Status.EXCEPTION, exit_code=1, raised=crash)
        return passing()

    culprit = diagnose(FakeLab(answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.CODEGEN


@pytest.mark.parametrize("fault", [Rung.LOOPS, Rung.SCHEDULED])
@pytest.mark.parametrize("explained", [False, True])
def test_a_switch_that_cures_the_generated_code_alone_leaves_doubt(fault: Rung, explained: bool) -> None:
    def cures(probe: Probe) -> bool:
        return "cpp.simdlen" in str(probe.switches) and (probe.rung is Rung.KERNEL or explained)

    culprit = diagnose(FakeLab(fault=fault, cures=cures), components=False).culprit
    assert culprit is not None
    assert culprit.stage is (Stage.LOWERING if fault is Rung.LOOPS else Stage.SCHEDULER)
    assert (culprit.confidence is Confidence.PROVEN) is explained
    assert any("different reasons" in line for line in sentences(culprit.evidence)) is not explained


def test_missing_python_headers_are_the_environment() -> None:
    text = "C++ compile error\nfatal error: Python.h: No such file or directory"
    lab = FakeLab(fault=Rung.KERNEL, answer=lambda p: failing(text) if p.rung is Rung.KERNEL else None)
    found = diagnose(lab)
    assert found.culprit is not None and found.culprit.stage is Stage.ENVIRONMENT
    assert found.culprit.component is not None and found.culprit.component.name == "Python.h"


def test_a_missing_module_is_the_environment() -> None:
    lab = FakeLab(answer=lambda probe: failing("No module named 'absent'", kind="ModuleNotFoundError"))
    found = diagnose(lab)
    assert found.culprit is not None and found.culprit.stage is Stage.ENVIRONMENT


def test_fusion_frames_make_a_crash_the_schedulers() -> None:
    crash = Raised(
        type="KeyError",
        message="'buf3'",
        frames=(Frame(file="torch/_inductor/codegen/cpp.py", line=1, function="try_outer_loop_fusion"),),
    )

    def answer(probe: Probe) -> Outcome | None:
        if probe.rung is Rung.KERNEL:
            if "max_fusion_size" in str(probe.switches):
                return passing()
            return Outcome(status=Status.EXCEPTION, exit_code=1, raised=crash, facts={"applied": {}})
        return None

    found = diagnose(FakeLab(fault=Rung.KERNEL, answer=answer))
    assert found.culprit is not None and found.culprit.stage is Stage.SCHEDULER


def test_the_cross_check_is_run_and_reported() -> None:
    def cures(probe: Probe) -> bool:
        bisector = dict(probe.switches).get("bisector")
        return bool(bisector and bisector["subsystem"] == "decomposition")

    found = diagnose(FakeLab(fault=Rung.DECOMP, cures=cures))
    assert found.witness is not None and found.witness.agrees is True
    found = diagnose(FakeLab(fault=Rung.DECOMP))
    assert found.witness is not None and found.witness.agrees is False


def test_verdict_is_no_bool() -> None:
    with pytest.raises(TypeError):
        bool(Verdict.GOOD)


def test_components_are_named_by_leaving_one_out() -> None:
    names = [f"aten.op{n}.default#0" for n in range(9)]

    def cures(probe: Probe) -> bool:
        return names[5] in (dict(probe.switches).get("off") or {}).get("decomposition", [])

    rows = [{"subsystem": "decomposition", "key": name, "changed": True} for name in names]
    regions = [{"id": 0, "name": "f", "backend": "inductor"}]
    facts = {"regions": regions, "applied": {"decomposition": names}, "applications": rows}
    found = diagnose(FakeLab(fault=Rung.DECOMP, cures=cures, facts=facts))
    assert found.culprit is not None and found.culprit.component is not None
    assert found.culprit.component.name == "aten.op5.default"


def test_a_slow_rung_is_not_taken_for_the_hang() -> None:
    # The aot rung needs 60 s: too long for the first look, well within the limit of 300 s.
    def answer(probe: Probe) -> Outcome | None:
        if probe.rung in (Rung.UNCOMPILED, Rung.DYNAMO):
            return passing()
        if probe.rung is Rung.AOT and probe.limits.timeout_s > 60:
            return passing()
        return Outcome(status=Status.TIMEOUT, seconds=probe.limits.timeout_s)

    lab = FakeLab(answer=answer)
    culprit = diagnose(lab).culprit
    assert culprit is not None and culprit.stage is Stage.PARTITIONER
    full = [p for p in lab.asked if p.limits.timeout_s >= 300 and not p.bare and not p.cold]
    assert {p.rung for p in full} >= {Rung.AOT, Rung.PARTITION}
    assert len(full) < len(lab.asked) / 2

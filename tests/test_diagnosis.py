"""The whole search on a fake lab: right stage, proof by a pair of runs, flaky scripts, doubt kept."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from accel_lab.core.findings import Component, Findings, Step
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import diagnosis
from accel_lab.search.beside import unchecked
from accel_lab.search.diagnosis import Diagnosis, Options
from accel_lab.search.named import Named
from fakes_lab import ORDER, FakeLab, failing, passing

PROBE = Probe(program=Program(path="/x/script.py", sha256="0"))

STAGES = {
    Rung.DYNAMO: Stage.DYNAMO,
    Rung.AOT: Stage.AOT_AUTOGRAD,
    Rung.PARTITION: Stage.PARTITIONER,
    Rung.DECOMP: Stage.DECOMPOSITION,
    Rung.FX: Stage.FX_PASSES,
    Rung.LOOPS: Stage.LOWERING,
    Rung.SCHEDULED: Stage.SCHEDULER,
    Rung.KERNEL: Stage.CODEGEN,
}


def diagnose(lab: FakeLab, **options: object) -> Findings:
    return Diagnosis(lab, PROBE, Options(**options)).run()  # type: ignore[arg-type]


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
    assert ladder <= 8 + (fault is Rung.AOT)


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
    assert any("not monotone" in warning for warning in found.warnings)
    assert found.culprit is None or found.culprit.confidence is Confidence.INCONCLUSIVE


class GapLab(FakeLab):
    """A rung may be refused."""

    def cannot_tell(self, outcome: Outcome) -> bool:
        return outcome.status is Status.REFUSED


@pytest.mark.parametrize(
    ("fault", "gap"),
    [
        (Rung.LOOPS, Rung.FX),  # it may as well be a pass
        (Rung.FX, Rung.DECOMP),
        (Rung.KERNEL, Rung.FX),
    ],
)
def test_what_a_rung_adds_that_could_not_be_run_is_not_ruled_out(fault: Rung, gap: Rung) -> None:
    lab = GapLab(fault=fault)
    refused = Outcome(status=Status.REFUSED, notes=("the lab could not prepare this run",))
    lab.answer = lambda probe: refused if probe.rung is gap else None
    found = diagnose(lab, components=False)
    assert found.culprit is not None
    if fault is Rung.KERNEL:  # the loop IR passes, and it is made after what was not told
        assert found.culprit.confidence is Confidence.PROVEN
    else:
        assert found.culprit.confidence is Confidence.INCONCLUSIVE
        assert any(f"{gap} told nothing" in line for line in found.culprit.evidence)


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


@pytest.mark.parametrize(("fault", "asked"), [(Rung.DECOMP, True), (Rung.FX, True), (Rung.AOT, False)])
def test_what_contiguous_copies_cure_is_not_proven(fault: Rung, asked: bool) -> None:
    lab = FakeLab(fault=fault, cures=lambda probe: "contiguous" in dict(probe.switches))
    culprit = diagnose(lab, components=False).culprit
    assert culprit is not None and culprit.stage is STAGES[fault]
    assert (culprit.confidence is Confidence.PROVEN) is not asked
    assert any("misreads legal strides" in line for line in culprit.evidence) is asked


class HidingLab(FakeLab):
    """Only the untouched script fails, or one whose caches may answer."""

    caches: tuple[str, ...] | None = None

    def _outcome(self, probe: Probe) -> Outcome:
        asked = dict(probe.switches).get("caches")
        fails = probe.bare or (
            self.caches is not None and asked is not None and set(self.caches) <= set(asked)
        )
        return failing() if fails else passing(facts=dict(self.facts))


def test_what_recording_hides_is_not_taken_for_flaky() -> None:
    lab = HidingLab()
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("inconclusive", [])
    assert any("hides the failure" in line for line in found.warnings)
    assert len(lab.asked) < 12 and found.failure_rate == 1.0


class MakingLab(FakeLab):
    """Only what is recorded fails."""

    def _outcome(self, probe: Probe) -> Outcome:
        return passing() if probe.bare else failing(facts=dict(self.facts))


def test_what_only_recorded_runs_show_is_the_labs_own_doing_and_not_flaky() -> None:
    lab = MakingLab()
    found = diagnose(lab)
    assert (found.verdict, found.culprits, found.failure_rate) == ("inconclusive", [], 1.0)
    assert any("from what the lab changes in order to look" in line for line in found.warnings)
    assert len(lab.asked) == 10


@dataclass
class RememberingLab(FakeLab):
    """What the first runs leave behind keeps the later ones from failing."""

    first: int = 2

    def _outcome(self, probe: Probe) -> Outcome:
        warm = self.warm and not probe.cold and not probe.bare
        facts = {} if probe.bare else dict(self.facts)
        return failing(facts=facts) if len(self.asked) <= self.first else passing(warm=warm, facts=facts)


@pytest.mark.parametrize("first", [1, 2])
def test_a_failure_of_the_first_runs_only_is_told_as_state_that_is_kept(first: int) -> None:
    lab = RememberingLab(first=first)
    found = diagnose(lab)
    assert (found.verdict, found.culprits) == ("inconclusive", [])
    assert any(f"the first {first} of " in line and "left behind" in line for line in found.warnings)
    assert len(lab.asked) <= 12


def test_a_failure_that_the_warm_process_hides_is_no_state() -> None:
    lab = FakeLab(fault=Rung.FX)
    lab.answer = lambda probe: passing(warm=True, facts=dict(lab.facts)) if warm_one(lab, probe) else None
    found = diagnose(lab)
    assert not lab.is_warm
    assert found.culprit is not None and found.culprit.stage is Stage.FX_PASSES


def warm_one(lab: FakeLab, probe: Probe) -> bool:
    return lab.warm and not probe.cold and not probe.bare


@pytest.mark.parametrize(
    ("caches", "setting"),
    [
        (("fx",), "torch._inductor.config.fx_graph_cache"),
        (("autograd", "fx"), "torch._functorch.config.enable_autograd_cache"),
    ],
)
def test_a_cache_that_answers_wrongly_is_named(caches: tuple[str, ...], setting: str) -> None:
    lab = HidingLab()
    lab.caches = caches
    culprit = diagnose(lab).culprit
    assert culprit is not None
    assert (culprit.stage, culprit.confidence) == (Stage.RUNTIME, Confidence.LIKELY)
    assert culprit.component is not None and culprit.component.name == setting
    assert culprit.component.confidence is Confidence.PROVEN


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
    assert any("must not be fused" in line for line in culprit.evidence)


@pytest.mark.parametrize("fault", [Rung.LOOPS, Rung.SCHEDULED])
@pytest.mark.parametrize("explained", [False, True])
def test_a_switch_that_cures_the_generated_code_alone_leaves_doubt(fault: Rung, explained: bool) -> None:
    def cures(probe: Probe) -> bool:
        return "cpp.simdlen" in str(probe.switches) and (probe.rung is Rung.KERNEL or explained)

    culprit = diagnose(FakeLab(fault=fault, cures=cures), components=False).culprit
    assert culprit is not None
    assert culprit.stage is (Stage.LOWERING if fault is Rung.LOOPS else Stage.SCHEDULER)
    assert (culprit.confidence is Confidence.PROVEN) is explained
    assert any("different reasons" in line for line in culprit.evidence) is not explained


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


def test_a_wrong_meta_kernel_is_blamed_only_if_correcting_it_cures() -> None:
    mismatch = [{"op": "aten.x.default", "what": "stride", "real": "(1,)", "fake": "(0,)"}]

    def lab(cures_by_fix: bool) -> FakeLab:
        def answer(probe: Probe) -> Outcome | None:
            switches = dict(probe.switches)
            if probe.rung is Rung.META:
                return passing(facts={"meta_mismatches": mismatch})
            if "meta_fix" in switches and cures_by_fix:
                return passing()
            return None

        return FakeLab(fault=Rung.KERNEL, answer=answer)

    cured = diagnose(lab(True)).culprit
    assert cured is not None and cured.stage is Stage.META_KERNEL
    assert cured.confidence is Confidence.PROVEN
    assert cured.component is not None and cured.component.name == "aten.x.default"
    other = diagnose(lab(False)).culprit
    assert other is not None and other.stage is Stage.CODEGEN


def test_a_graph_that_does_not_last_leaves_open_whose_fault_it_is() -> None:
    """Compiled afresh it passes, with the same graph each time: a missing guard looks like that as well."""

    def answer(probe: Probe) -> Outcome | None:
        return passing(facts={"graph_texts": ["f", "f"]}) if dict(probe.switches).get("fresh") else None

    found = diagnose(FakeLab(fault=Rung.AOT, answer=answer))
    assert found.culprit is not None and found.culprit.stage is Stage.AOT_AUTOGRAD
    assert found.culprit.confidence is Confidence.LIKELY
    assert any("a guard may be missing" in line for line in found.warnings)
    proven = diagnose(FakeLab(fault=Rung.AOT)).culprit
    assert proven is not None and proven.confidence is Confidence.PROVEN


def test_a_missed_guard_shows_by_other_graphs_when_captured_afresh() -> None:
    def lab(graphs: list[str]) -> FakeLab:
        def answer(probe: Probe) -> Outcome | None:
            if dict(probe.switches).get("fresh"):
                return passing(facts={"graph_texts": graphs})
            return None

        return FakeLab(fault=Rung.AOT, answer=answer)

    missed = diagnose(lab(["a", "b"])).culprit
    assert missed is not None and missed.stage is Stage.DYNAMO
    same = diagnose(lab(["a", "a"])).culprit
    assert same is not None and same.stage is Stage.AOT_AUTOGRAD


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


def test_the_second_witness_is_asked_and_told() -> None:
    def cures(probe: Probe) -> bool:
        bisector = dict(probe.switches).get("bisector")
        return bool(bisector and bisector["subsystem"] == "decomposition")

    found = diagnose(FakeLab(fault=Rung.DECOMP, cures=cures))
    assert found.witness is not None and found.witness["agrees"] is True
    found = diagnose(FakeLab(fault=Rung.DECOMP))
    assert found.witness is not None and found.witness["agrees"] is False


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


@pytest.mark.parametrize(
    ("fault", "stage"), [(Rung.DECOMP, Stage.DECOMPOSITION), (Rung.KERNEL, Stage.META_KERNEL)]
)
def test_a_lost_check_is_whose_that_replaced_the_call(fault: Rung, stage: Stage) -> None:
    # pytorch#141865 (a decomposition drops addmm's check) and #177630 (bmm's own meta kernel has none).
    what = "the real kernel raises, the meta kernel accepts"
    mismatch = [{"op": "aten.mm.default", "what": what, "real": "RuntimeError: dtypes", "fake": "no error"}]

    def answer(probe: Probe) -> Outcome | None:
        if probe.rung is Rung.META:
            return passing(facts={"meta_mismatches": mismatch})
        return passing() if "meta_fix" in dict(probe.switches) else None

    culprit = diagnose(FakeLab(fault=fault, answer=answer)).culprit
    assert culprit is not None and culprit.stage is stage


def test_a_meta_kernel_need_not_know_what_a_device_implements() -> None:
    what = "the real kernel raises, the meta kernel accepts"
    real = "NotImplementedError: \"ceil_vml_cpu\" not implemented for 'Bool'"
    mismatch = [{"op": "aten.ceil.default", "what": what, "real": real, "fake": "no error"}]

    def answer(probe: Probe) -> Outcome | None:
        if probe.rung is Rung.META:
            return passing(facts={"meta_mismatches": mismatch})
        return passing() if "meta_fix" in dict(probe.switches) else None

    culprit = diagnose(FakeLab(fault=Rung.LOOPS, answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.LOWERING
    # But it could: with that very operator at fault, both are told.
    ladder = [
        Step(rung=Rung.META, verdict=Verdict.GOOD, outcome=passing(facts={"meta_mismatches": mismatch}))
    ]
    assert "could be missing there" in unchecked(ladder, Component(kind="op", name="aten.ceil.default"))
    assert not unchecked(ladder, Component(kind="op", name="aten.floor.default"))
    assert not unchecked(ladder, None) and not unchecked([], Component(kind="op", name="aten.ceil.default"))
    mismatch[0]["real"] = "IndexError: index 3 is out of bounds"
    assert not unchecked(ladder, Component(kind="op", name="aten.ceil.default"))


@pytest.mark.parametrize(("op", "sure"), [("aten.ceil.default", False), ("aten.floor.default", True)])
def test_a_lowering_is_not_proven_for_a_check_that_a_meta_kernel_could_make(
    monkeypatch: pytest.MonkeyPatch, op: str, sure: bool
) -> None:
    what = "the real kernel raises, the meta kernel accepts"
    real = "NotImplementedError: \"ceil_vml_cpu\" not implemented for 'Bool'"
    mismatch = [{"op": "aten.ceil.default", "what": what, "real": real, "fake": "no error"}]
    named = Named(component=Component(kind="op", name=op, confidence=Confidence.PROVEN))
    monkeypatch.setattr(diagnosis, "name_component", lambda *_, **__: named)

    def answer(probe: Probe) -> Outcome | None:
        return passing(facts={"meta_mismatches": mismatch}) if probe.rung is Rung.META else None

    culprit = diagnose(FakeLab(fault=Rung.LOOPS, answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.LOWERING
    assert (culprit.confidence is Confidence.PROVEN) is sure
    assert any("could be missing there" in line for line in culprit.evidence) is not sure


@pytest.mark.parametrize(("fault", "sure"), [(Rung.FX, False), (Rung.LOOPS, False), (Rung.AOT, True)])
def test_what_autograd_refuses_is_not_proven_of_what_does_not_know_it(fault: Rung, sure: bool) -> None:
    saved = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: x"
    )

    def answer(probe: Probe) -> Outcome | None:
        plain = FakeLab(fault=fault)._outcome(probe)
        return failing(saved, kind="RuntimeError") if plain.status is not Status.OK else None

    culprit = diagnose(FakeLab(fault=fault, answer=answer), components=False).culprit
    assert culprit is not None and culprit.stage is STAGES[fault]
    assert (culprit.confidence is Confidence.PROVEN) is sure
    assert any("nothing below AOTAutograd knows" in line for line in culprit.evidence) is not sure


@pytest.mark.parametrize("operator", ["aten.bicubic_backward.default", ""])
def test_an_operator_that_raises_on_fake_tensors_is_its_meta_kernels(operator: str) -> None:
    frames = (
        Frame(file="torch/_functorch/_aot_autograd/graph_compile.py", line=1, function="trace"),
        Frame(file="torch/_subclasses/fake_tensor.py", line=2, function="_dispatch_impl"),
        Frame(file="torch/_ops.py", line=3, function="__call__"),
    )
    raised = Raised(type="RuntimeError", message="isIntList()", frames=frames, operator=operator)
    refused = Outcome(status=Status.EXCEPTION, exit_code=1, raised=raised)

    def answer(probe: Probe) -> Outcome | None:
        return refused if FakeLab(fault=Rung.AOT)._outcome(probe).status is not Status.OK else None

    culprit = diagnose(FakeLab(fault=Rung.AOT, answer=answer)).culprit
    assert culprit is not None
    if operator:
        assert (culprit.stage, culprit.confidence) == (Stage.META_KERNEL, Confidence.LIKELY)
        assert culprit.component is not None and culprit.component.name == operator
    else:
        assert culprit.stage is Stage.AOT_AUTOGRAD


def test_a_mode_that_the_captured_graph_leaves_changed_is_dynamos() -> None:
    def front(dtype: str) -> dict[str, object]:
        row = {
            "region": 0,
            "call": 0,
            "before": {},
            "after": {"torch.get_default_dtype()": dtype},
            "raised": "",
        }
        return {"front": {"calls": [row]}}

    def answer(probe: Probe) -> Outcome | None:
        if probe.rung in (Rung.UNCOMPILED, Rung.DYNAMO) and "look" in str(probe.switches):
            left = "torch.float64" if probe.rung is Rung.DYNAMO and wrong else "torch.float32"
            return passing(facts=front(left))
        return None

    for wrong in (True, False):
        culprit = diagnose(FakeLab(fault=Rung.AOT, answer=answer)).culprit
        assert culprit is not None
        assert culprit.stage is (Stage.DYNAMO if wrong else Stage.AOT_AUTOGRAD)
        assert culprit.confidence is (Confidence.LIKELY if wrong else Confidence.PROVEN)
        if wrong:
            assert culprit.component is not None and culprit.component.name == "torch.get_default_dtype()"


@pytest.mark.parametrize("contested", [False, True])
def test_what_another_stage_may_have_to_keep_is_not_proven(
    monkeypatch: pytest.MonkeyPatch, contested: bool
) -> None:
    monkeypatch.setattr(diagnosis, "name_component", lambda *_, **__: Named(contested=contested))
    culprit = diagnose(FakeLab(fault=Rung.FX)).culprit
    assert culprit is not None and culprit.stage is Stage.FX_PASSES
    assert (culprit.confidence is Confidence.PROVEN) is not contested


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

"""The alternatives to what the ladder blames, each on a fake lab: when it is the fault, when not."""

from __future__ import annotations

import pytest

from accel_lab.core.evidence import EvidenceKind
from accel_lab.core.findings import Component, Considered, Step
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import line_of, sentences, words_of
from accel_lab.reporting.words.summary import next_steps, summarise
from accel_lab.search.alternatives import meta_kernel
from accel_lab.search.alternatives.case import Case
from accel_lab.search.ladder import read
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize import opening
from accel_lab.search.localize.localization import Localization
from accel_lab.search.premise import Baseline
from fakes_lab import PROBE, STAGES, FakeLab, diagnose, failing, passing


class GapLab(FakeLab):
    """A rung may be refused."""

    def oracle_undecided(self, outcome: Outcome) -> bool:
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
        assert any(f"rung {gap} gave no answer" in line for line in sentences(found.culprit.evidence))


@pytest.mark.parametrize(("fault", "asked"), [(Rung.DECOMP, True), (Rung.FX, True), (Rung.AOT, False)])
def test_what_contiguous_copies_cure_is_not_proven(fault: Rung, asked: bool) -> None:
    lab = FakeLab(fault=fault, cures=lambda probe: "contiguous" in dict(probe.switches))
    culprit = diagnose(lab, components=False).culprit
    assert culprit is not None and culprit.stage is STAGES[fault]
    assert (culprit.confidence is Confidence.PROVEN) is not asked
    assert any("misreads legal strides" in line for line in sentences(culprit.evidence)) is asked


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
    assert any("hides the failure" in line for line in map(line_of, found.warnings))
    assert len(lab.asked) < 12 and found.failure_rate == 1.0


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


def test_no_cache_is_named_where_a_run_with_the_caches_off_fails_as_well() -> None:
    """pytorch#183015: a fresh process hides the failure, a warm one shows it, with the caches and without."""

    class WarmLab(HidingLab):
        def _outcome(self, probe: Probe) -> Outcome:
            return failing() if probe.bare or not probe.cold else passing(facts=dict(self.facts))

    found = diagnose(WarmLab())
    assert (found.verdict, found.culprits) == ("inconclusive", [])
    assert any("hides the failure" in line for line in map(line_of, found.warnings))


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


@pytest.mark.parametrize("rung", [Rung.DYNAMO, Rung.AOT])
@pytest.mark.parametrize("op", ["aten.x.default", "aten.y.default"])
def test_a_meta_kernel_that_dynamo_reads_is_not_dynamos_fault(op: str, rung: Rung) -> None:
    """The script reads a stride; batch_norm calls another kernel (y) on fake tensors than on real ones."""

    def mismatch(name: str) -> list[dict[str, str]]:
        return [{"op": name, "what": "stride", "real": "(1,)", "fake": "(0,)"}]

    def answer(probe: Probe) -> Outcome | None:
        switches = dict(probe.switches)
        if "meta_eager" in switches or probe.rung is Rung.META:
            return passing(facts={"meta_mismatches": mismatch("aten.x.default")})
        if "meta_watch" in switches:
            return failing(facts={"meta_mismatches": mismatch("aten.y.default")})
        return passing() if op in switches.get("meta_fix", ()) else None

    culprit = diagnose(FakeLab(fault=rung, answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.META_KERNEL
    assert culprit.component is not None and culprit.component.name == op


def test_an_exception_of_the_compilers_own_that_the_script_expects_is_no_cure() -> None:
    """A handler of RuntimeError takes BackendCompilerFailed for what it waits for."""
    caught = [{"type": "torch._dynamo.exc.BackendCompilerFailed", "message": "no such kernel", "region": 0}]

    def answer(probe: Probe) -> Outcome | None:
        return passing(facts={"caught": caught}) if dict(probe.switches).get("off") else None

    found = diagnose(FakeLab(fault=Rung.FX, answer=answer))
    assert found.culprit is not None and found.culprit.stage is Stage.FX_PASSES
    assert found.culprit.component is None
    assert EvidenceKind.PASS_LEFT_OUT not in {one.kind for one in found.culprit.evidence}


def test_a_graph_that_does_not_last_leaves_open_whose_fault_it_is() -> None:
    """Compiled afresh it passes, with the same graph each time: a missing guard looks like that as well."""

    def answer(probe: Probe) -> Outcome | None:
        return passing(facts={"graph_texts": ["f", "f"]}) if dict(probe.switches).get("fresh") else None

    found = diagnose(FakeLab(fault=Rung.AOT, answer=answer))
    assert found.culprit is not None and found.culprit.stage is Stage.AOT_AUTOGRAD
    assert found.culprit.confidence is Confidence.LIKELY
    assert any("a guard may be missing" in line for line in map(line_of, found.warnings))
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


@pytest.mark.parametrize("cured", [True, False])
def test_an_input_that_is_not_as_dynamo_promised_is_dynamos_fault(cured: bool) -> None:
    """Graphs that are run operator by operator hide it; generated code reads eight bytes as four."""
    given = [{"name": "random_value_0", "what": "dtype", "promised": "float32", "given": "float64"}]

    def answer(probe: Probe) -> Outcome | None:
        if "correct_inputs" in dict(probe.switches):
            return passing() if cured else failing()
        return passing(facts={"graph_inputs": given}) if probe.rung is Rung.DECOMP else None

    culprit = diagnose(FakeLab(fault=Rung.KERNEL, answer=answer)).culprit
    assert culprit is not None
    if not cured:
        assert culprit.stage is Stage.CODEGEN
        assert ("graph_inputs", False) in {(one.name, one.open) for one in culprit.alternatives}
        return
    assert (culprit.stage, culprit.confidence) == (Stage.DYNAMO, Confidence.PROVEN)
    assert culprit.component is not None and culprit.component.name == "random_value_0"
    assert "float32 promised, float64 given" in sentences(culprit.evidence)[0]


@pytest.mark.parametrize("verdict", ["passes", "fails", "comes and goes"])
def test_what_another_process_compiles_is_not_blamed_on_the_script(verdict: str) -> None:
    """No rung reaches an interpreter that the script starts; torch's own variable does."""

    def answer(probe: Probe) -> Outcome | None:
        if "disable_everywhere" not in dict(probe.switches):
            return None
        return passing() if verdict == "passes" or (verdict != "fails" and probe.attempt == 0) else failing()

    found = diagnose(FakeLab(fault=Rung.UNCOMPILED, answer=answer))
    if verdict == "passes":
        assert found.verdict == "inconclusive" and not found.culprits
        assert "another process" in found.outside and "TORCHDYNAMO_DISABLE=1" in summarise(found)
        assert next_steps(found)[0].startswith("Bisect the command that the script starts")
        return
    assert found.culprit is not None and found.culprit.stage is Stage.EAGER and not found.outside
    asked = {one.name: one.open for one in found.culprit.alternatives}
    assert asked == {"wrapper": False, "recording": False, "plain_uncompiled": False}


@pytest.mark.parametrize("alike", [True, False], ids=["the same failure", "another failure"])
def test_what_fails_uncompiled_only_in_the_labs_runs_is_not_blamed_on_the_script(alike: bool) -> None:
    """A script that replaces ``open`` breaks what the lab writes, not what plain Python does."""

    def answer(probe: Probe) -> Outcome | None:
        if probe.bare and "disable_everywhere" in dict(probe.switches):
            return passing()
        other = probe.rung is Rung.UNCOMPILED and not alike
        return failing(message="no files here") if other else failing()

    found = diagnose(FakeLab(fault=Rung.UNCOMPILED, answer=answer))
    assert found.verdict == "inconclusive" and not found.culprits and not found.outside
    assert "only when the lab runs it" in summarise(found)


@pytest.mark.parametrize("fault", [Rung.DYNAMO, Rung.DECOMP, Rung.FX], ids=str)
def test_the_ladder_is_asked_in_the_processes_that_the_script_starts(fault: Rung) -> None:
    def answer(probe: Probe) -> Outcome | None:
        switches = dict(probe.switches)
        if switches.get("other_processes"):
            return None
        return passing() if "disable_everywhere" in switches else failing()

    found = diagnose(FakeLab(fault=fault, answer=answer))
    assert found.culprit is not None and not found.outside
    assert (found.culprit.stage, found.culprit.confidence) == (STAGES[fault], Confidence.PROVEN)
    assert "in processes that the script starts" in sentences(found.culprit.evidence)[-1]


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
    check = Step(rung=Rung.META, verdict=Verdict.GOOD, outcome=passing(facts={"meta_mismatches": mismatch}))
    op = Component(kind="op", name="aten.ceil.default")
    considered = lost_check([check], op)
    assert considered is not None and considered.open and "may be missing there" in words_of(considered.why)
    assert lost_check([check], Component(kind="op", name="aten.floor.default")) is None
    assert lost_check([check], None) is None and lost_check([], op) is None
    mismatch[0]["real"] = "IndexError: index 3 is out of bounds"
    assert lost_check([check], op) is None


def lost_check(ladder: list[Step], component: Component | None) -> Considered | None:
    """What is said of a check that a meta kernel lacks, where a lowering is at fault."""
    case = Case(
        runner=LadderRunner(lab=FakeLab(), probe=PROBE, baseline=Baseline()),
        ladder=ladder,
        reading=read([]),
        start=Rung.LOOPS,
        stage=Stage.LOWERING,
        localization=Localization(component=component),
    )
    return meta_kernel.lost_check(case).considered


@pytest.mark.parametrize(("op", "sure"), [("aten.ceil.default", False), ("aten.floor.default", True)])
def test_a_lowering_is_not_proven_for_a_check_that_a_meta_kernel_could_make(
    monkeypatch: pytest.MonkeyPatch, op: str, sure: bool
) -> None:
    what = "the real kernel raises, the meta kernel accepts"
    real = "NotImplementedError: \"ceil_vml_cpu\" not implemented for 'Bool'"
    mismatch = [{"op": "aten.ceil.default", "what": what, "real": real, "fake": "no error"}]
    named = Localization(component=Component(kind="op", name=op, confidence=Confidence.PROVEN))
    monkeypatch.setattr(opening, "localize_component", lambda *_, **__: named)

    def answer(probe: Probe) -> Outcome | None:
        return passing(facts={"meta_mismatches": mismatch}) if probe.rung is Rung.META else None

    culprit = diagnose(FakeLab(fault=Rung.LOOPS, answer=answer)).culprit
    assert culprit is not None and culprit.stage is Stage.LOWERING
    assert (culprit.confidence is Confidence.PROVEN) is sure
    assert any("may be missing there" in line for line in sentences(culprit.evidence)) is not sure


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
    assert (
        any("nothing below AOTAutograd handles" in line for line in sentences(culprit.evidence)) is not sure
    )


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


@pytest.mark.parametrize("merged", [False, True])
def test_what_another_stage_may_have_to_keep_is_not_proven(
    monkeypatch: pytest.MonkeyPatch, merged: bool
) -> None:
    before = ["%a : = aten.view.default(%x, [4])", "return [%x, %a]"]
    change = (before, ["return [%x, %x]"] if merged else before)
    part = Component(kind="pass", name="p", confidence=Confidence.PROVEN)
    monkeypatch.setattr(
        opening, "localize_component", lambda *_, **__: Localization(component=part, changes=[change])
    )
    culprit = diagnose(FakeLab(fault=Rung.FX)).culprit
    assert culprit is not None and culprit.stage is Stage.FX_PASSES
    assert (culprit.confidence is Confidence.PROVEN) is not merged
    assert culprit.component is not None
    assert (culprit.component.confidence is Confidence.PROVEN) is not merged
    told = {alternative.name: alternative.open for alternative in culprit.alternatives}
    assert told["merged_results"] is merged

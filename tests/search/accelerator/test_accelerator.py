"""What the table of the accelerator's combinations says, and the search over it, without processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accel_lab.core.accelerator_record import KEY, AcceleratorRecord
from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Side, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.minimize.target import ask, target_of
from accel_lab.reporting.words.evidence import line_of, sentences, words_of
from accel_lab.search.accelerator.diagnosis import AcceleratorDiagnosis
from accel_lab.search.accelerator.kernel import TracedKernel, first_diverging
from accel_lab.search.accelerator.replacements import (
    ABLATIONS,
    COMBINATIONS,
    SETTINGS,
    Replacement,
    read_table,
    switches,
)
from accel_lab.search.bisection import Options
from fakes_lab import FakeLab, failing, passing

BAD, GOOD, OTHER, SKIP = Verdict.BAD, Verdict.GOOD, Verdict.DIFFERENT, Verdict.SKIP


def table(
    *good: Replacement, other: tuple[Replacement, ...] = (), skip: tuple[Replacement, ...] = ()
) -> dict[Replacement, Verdict]:
    """Everything BAD but what is said to pass."""
    rows = dict.fromkeys(Replacement, BAD)
    rows.update(dict.fromkeys(good, GOOD))
    rows.update(dict.fromkeys(other, OTHER))
    rows.update(dict.fromkeys(skip, SKIP))
    return rows


CASES = [
    # back end: the same specs pass on the reference
    (
        table(Replacement.BACK_END, Replacement.BOTH),
        Stage.MOCK_BACK_END,
        Replacement.BACK_END,
        Confidence.PROVEN,
    ),
    (
        table(Replacement.BACK_END, Replacement.FRONT_END, Replacement.BOTH),
        Stage.MOCK_BACK_END,
        Replacement.BACK_END,
        Confidence.PROVEN,
    ),
    (
        table(Replacement.BACK_END, Replacement.BOTH, other=(Replacement.FRONT_END,)),
        Stage.MOCK_BACK_END,
        Replacement.BACK_END,
        Confidence.PROVEN,
    ),
    # and a reference front end that fails on the reference back end contradicts it
    (table(Replacement.BACK_END), Stage.MOCK_BACK_END, Replacement.BACK_END, Confidence.INCONCLUSIVE),
    # front end: both back ends agree that its programs are wrong
    (
        table(Replacement.FRONT_END, Replacement.BOTH),
        Stage.MOCK_FRONT_END,
        Replacement.FRONT_END,
        Confidence.PROVEN,
    ),
    (
        table(Replacement.FRONT_END, Replacement.BOTH, Replacement.SCRATCHPAD, Replacement.CORES),
        Stage.MOCK_FRONT_END,
        Replacement.FRONT_END,
        Confidence.PROVEN,
    ),
    (
        table(Replacement.FRONT_END, Replacement.BOTH, other=(Replacement.BACK_END,)),
        Stage.MOCK_FRONT_END,
        Replacement.FRONT_END,
        Confidence.LIKELY,
    ),
    (table(Replacement.FRONT_END), Stage.MOCK_FRONT_END, Replacement.FRONT_END, Confidence.INCONCLUSIVE),
    (
        table(Replacement.FRONT_END, skip=(Replacement.BOTH,)),
        Stage.MOCK_FRONT_END,
        Replacement.FRONT_END,
        Confidence.LIKELY,
    ),
    # transfer: believed before a front end that transfers other things
    (table(Replacement.TRANSFER), Stage.MOCK_TRANSFER, Replacement.TRANSFER, Confidence.PROVEN),
    (
        table(Replacement.TRANSFER, Replacement.FRONT_END, Replacement.BOTH),
        Stage.MOCK_TRANSFER,
        Replacement.TRANSFER,
        Confidence.PROVEN,
    ),
    (
        table(Replacement.TRANSFER, other=COMBINATIONS),
        Stage.MOCK_TRANSFER,
        Replacement.TRANSFER,
        Confidence.PROVEN,
    ),
    (
        table(Replacement.TRANSFER, Replacement.BACK_END),
        Stage.MOCK_TRANSFER,
        Replacement.TRANSFER,
        Confidence.LIKELY,
    ),
    # host calls: declared by the front end, or made by the runtime for both
    (
        table(Replacement.HOST, Replacement.FRONT_END, Replacement.BOTH),
        Stage.MOCK_FRONT_END,
        Replacement.HOST,
        Confidence.PROVEN,
    ),
    (table(Replacement.HOST), Stage.MOCK_RUNTIME, Replacement.HOST, Confidence.PROVEN),
    # caches
    (table(Replacement.CACHE), Stage.MOCK_FRONT_END, Replacement.CACHE, Confidence.LIKELY),
    (
        table(Replacement.CACHE, Replacement.FRONT_END, Replacement.BOTH),
        Stage.MOCK_FRONT_END,
        Replacement.FRONT_END,
        Confidence.PROVEN,
    ),
    # nothing that can be told
    (table(), None, None, Confidence.INCONCLUSIVE),
    (table(Replacement.BOTH), None, None, Confidence.INCONCLUSIVE),
    (table(Replacement.POISON, Replacement.CORES), None, None, Confidence.INCONCLUSIVE),
    (table(other=COMBINATIONS), None, None, Confidence.INCONCLUSIVE),
]


@pytest.mark.parametrize(("rows", "stage", "out", "confidence"), CASES)
def test_table(
    rows: dict[Replacement, Verdict], stage: Stage | None, out: Replacement | None, confidence: Confidence
) -> None:
    reading = read_table(rows)
    assert (reading.stage, reading.passing_row, reading.limit) == (stage, out, confidence)


@pytest.mark.parametrize(("rows", "stage", "out", "confidence"), CASES)
def test_proof_is_a_row_that_passes(
    rows: dict[Replacement, Verdict], stage: Stage | None, out: Replacement | None, confidence: Confidence
) -> None:
    reading = read_table(rows)
    assert (reading.passing_row is None) == (reading.stage is None)
    assert reading.passing_row is None or rows[reading.passing_row] is GOOD


def test_a_cache_that_cures_is_the_part() -> None:
    assert read_table(table(Replacement.CACHE, Replacement.FRONT_END, Replacement.BOTH)).part == (
        "cache",
        "kernel cache",
    )
    assert read_table(table(Replacement.FRONT_END, Replacement.BOTH)).part is None


def test_what_differs_is_told() -> None:
    told = read_table(table(other=COMBINATIONS)).contradictions
    assert told and "in another way" in words_of(told[0])


def test_rows_that_could_not_be_run_prove_nothing() -> None:
    reading = read_table(table(skip=(*COMBINATIONS, *ABLATIONS)))
    assert reading.stage is None and reading.contradictions


def test_rows_are_probes_of_their_own() -> None:
    assert len({str(switches(row)) for row in Replacement}) == len(Replacement) == len(SETTINGS)


# -- the search --------------------------------------------------------------------------------

Cured = Callable[[dict[str, Any]], bool]


class MockLab(FakeLab):
    """A script that fails on the mock wherever ``cured`` says no for the row's settings."""

    def __init__(self, cured: Cured, **changes: Any) -> None:
        super().__init__(fault=Rung.KERNEL, **changes)
        self.cured = cured
        self.settings: list[dict[str, Any]] = []
        self.kernels: list[dict[str, Any]] = []
        self.steps: list[dict[str, Any]] = []
        self.environment: dict[str, Any] = {}
        self.plain = passing()
        self.bad: Callable[[dict[str, Any]], Outcome] = lambda settings: failing()
        self.answer = self._mock

    def _mock(self, probe: Probe) -> Outcome:
        if probe.rung is Rung.UNCOMPILED:
            return self.plain
        assert probe.rung is Rung.MOCK
        settings = dict(dict(probe.switches)["mock"])
        self.settings.append(settings)
        facts = {
            "regions": [{"id": 0, "name": "f", "backend": "mock"}],
            "mock": {
                "faults": [],
                "kernels": self.kernels,
                "steps": {"wrong": self.steps},
                "environment": self.environment,
            },
        }
        common: dict[str, Any] = {"facts": facts, "warm": self.warm and not probe.cold}
        if self.cured(settings):
            return passing(**common)
        if self._random.random() >= self.rate:
            return passing(**common)
        ended = self.bad(settings)
        return failing(ended.raised.message if ended.raised else "", **common) if ended.failed else ended


def search(lab: MockLab) -> Findings:
    return AcceleratorDiagnosis(lab, Probe(program=Program(path="/x.py", sha256="0"))).run()


def kernel(name: str, graph: float | None, back_end: float | None) -> dict[str, Any]:
    return {
        "program": "graph0_inference",
        "call": 0,
        "name": name,
        "origins": [name],
        "source": "x.py:3",
        "graph": graph,
        "back_end": back_end,
        "spec": "{}",
        "loop_ir": "",
        "script": "",
    }


def test_a_script_that_passes() -> None:
    found = search(MockLab(lambda settings: True))
    assert found.verdict == "passes" and not found.culprits


def test_back_end_with_its_kernel() -> None:
    lab = MockLab(lambda s: s["back_end"] == "reference" or s.get("by_reference") == ["exp"])
    lab.kernels = [kernel("add", 0.0, 0.0), kernel("exp", 0.5, 0.5), kernel("sum", 2.0, 0.0)]
    found = search(lab)
    culprit = found.culprit
    assert culprit is not None
    assert (culprit.stage, culprit.confidence) == (Stage.MOCK_BACK_END, Confidence.PROVEN)
    assert culprit.to_json()["side"] == Side.BACK_END.value and culprit.to_json()["level"] == "kernel"
    assert culprit.component is not None
    assert (culprit.component.name, culprit.component.confidence) == ("exp", Confidence.PROVEN)
    assert found.confidence is not None and found.confidence > 0.99


def test_a_kernel_that_does_not_cure_is_not_proven() -> None:
    lab = MockLab(lambda s: s["back_end"] == "reference")
    lab.kernels = [kernel("exp", 0.5, 0.5)]
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    assert culprit.component.confidence is Confidence.LIKELY


def test_front_end_names_the_first_kernel_off_the_graph() -> None:
    lab = MockLab(lambda s: s["front_end"] == "reference")
    lab.kernels = [kernel("add", 0.0, 0.0), kernel("amax", -1.0, 0.0), kernel("sum", 2.0, 0.5)]
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    assert (culprit.stage, culprit.confidence) == (Stage.MOCK_FRONT_END, Confidence.PROVEN)
    assert (culprit.component.name, culprit.component.confidence) == ("amax", Confidence.LIKELY)
    assert culprit.to_json()["side"] == "front_end"


def test_transfer() -> None:
    found = search(MockLab(lambda s: s.get("transfer") == "definition"))
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.MOCK_TRANSFER, Confidence.PROVEN)


def moved(kind: str, name: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "tensor": "aten.det.default" if kind == "host_call" else "x",
        "wrong": 1,
        "of": 65,
        "shape": [65],
        "dtype": "float32",
        "strides": [1],
        "offset": 0,
        "layout": "" if kind == "host_call" else "order [0]",
    }


def test_the_one_transfer_that_cures_is_proven() -> None:
    lab = MockLab(lambda s: s.get("transfer") in ("definition", ["g x to the device"]))
    lab.steps = [
        moved("host_call", "g det"),
        moved("to_device", "g x to the device"),
        moved("to_host", "g y to the host"),
    ]
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    part = culprit.component
    assert (part.kind, part.name, part.confidence) == ("transfer", "g x to the device", Confidence.PROVEN)
    assert "order [0]" in part.detail
    assert [row[0] for row in culprit.exhibits[0].rows[1:]] == ["g x to the device", "g y to the host"]


def test_transfers_that_cure_together_are_named_together() -> None:
    names = ["g x to the device", "g y to the host"]
    lab = MockLab(lambda s: s.get("transfer") in ("definition", names))
    lab.steps = [moved("to_device", names[0]), moved("to_host", names[1])]
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    assert (culprit.component.name, culprit.component.confidence) == (", ".join(names), Confidence.PROVEN)
    assert any("does not fix" in line for line in sentences(culprit.evidence))


def test_a_transfer_that_does_not_cure_is_not_proven() -> None:
    lab = MockLab(lambda s: s.get("transfer") == "definition")
    lab.steps = [moved("to_device", "g x to the device")]
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    assert culprit.component.confidence is Confidence.LIKELY
    lab.steps = []
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is None


def test_the_host_call_that_cures_is_proven() -> None:
    lab = MockLab(lambda s: s.get("host") in ("apart", ["g det"]) or s["front_end"] == "reference")
    lab.steps = [moved("to_device", "g x to the device"), moved("host_call", "g det")]
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    assert culprit.stage is Stage.MOCK_FRONT_END
    part = culprit.component
    assert (part.kind, part.name, part.confidence) == ("host_call", "aten.det.default", Confidence.PROVEN)


def test_a_smaller_program_is_put_to_the_pair_that_told() -> None:
    lab = MockLab(lambda s: s.get("transfer") == "definition")
    probe = Probe(program=Program(path="/x.py", sha256="0"))
    diagnosis = AcceleratorDiagnosis(lab, probe)
    found = diagnosis.run()
    assert diagnosis.baseline is not None
    target, _ = target_of(diagnosis.baseline, found.ladder, found.culprit, diagnosis.pair)
    assert target is not None
    assert (target.bad, target.bad_with) == (Rung.MOCK, switches(Replacement.MAIN))
    assert (target.good, target.good_with) == (Rung.MOCK, switches(Replacement.TRANSFER))
    assert ask(lab, probe, target)[0].interesting
    lab.cured = lambda settings: True
    assert not ask(lab, probe, target)[0].interesting
    lab.cured = lambda settings: settings["back_end"] == "reference"  # it fails, but by another part
    assert not ask(lab, probe, target)[0].interesting


def test_runtime() -> None:
    found = search(MockLab(lambda s: s.get("host") == "apart"))
    assert found.culprit is not None and found.culprit.stage is Stage.MOCK_RUNTIME


def test_nothing_cures() -> None:
    found = search(MockLab(lambda s: False))
    assert found.verdict == "inconclusive" and not found.culprits and found.warnings


def test_a_script_that_fails_by_itself() -> None:
    lab = MockLab(lambda s: False)
    lab.plain = failing()
    found = search(lab)
    assert found.culprit is not None and found.culprit.stage is Stage.EAGER
    assert found.culprit.confidence is not Confidence.PROVEN


def test_a_missing_module_is_the_environment() -> None:
    lab = MockLab(lambda s: False)
    lab.bad = lambda s: failing("no module", "ModuleNotFoundError")
    lab.plain = failing("no module", "ModuleNotFoundError")
    found = search(lab)
    assert found.culprit is not None and found.culprit.stage is Stage.ENVIRONMENT


def test_two_faults_are_not_forced_into_one() -> None:
    found = search(MockLab(lambda s: s["front_end"] == s["back_end"] == "reference"))
    assert not found.culprits and "both together do" in line_of(found.warnings[-1])


def test_different_failures_lower_the_confidence() -> None:
    lab = MockLab(lambda s: s["front_end"] == "reference")
    lab.bad = lambda s: failing("other" if s["back_end"] == "reference" else "boom")
    found = search(lab)
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (Stage.MOCK_FRONT_END, Confidence.LIKELY)
    assert any("in another way" in line for line in map(line_of, found.warnings))


def test_an_accelerator_that_does_not_run_is_told() -> None:
    lab = MockLab(lambda s: False)
    lab.bad = lambda s: Outcome(status=Status.NOT_APPLICABLE, notes=("the mock does not run here",))
    found = search(lab)
    assert found.verdict == "inconclusive" and "the mock does not run here" in map(line_of, found.warnings)


@pytest.mark.parametrize("seed", range(6))
def test_a_flaky_fault_is_never_given_to_another_part(seed: int) -> None:
    lab = MockLab(lambda s: s["front_end"] == "reference", rate=0.6, seed=seed)
    found = search(lab)
    proven = [c.stage for c in found.culprits if c.confidence is Confidence.PROVEN]
    assert proven in ([], [Stage.MOCK_FRONT_END])


def test_what_the_run_depended_on_is_recorded() -> None:
    lab = MockLab(lambda s: s["front_end"] == "reference")
    assert search(lab).environment == {}  # the child of an older lab records nothing
    lab.environment = {"variables": {"MOCK_CORES": "2", "MOCK_FAULTS": None}, "package": "accel_lab"}
    record = AcceleratorRecord.from_json(search(lab).environment[KEY])
    assert (record.name, record.package, record.settings) == ("mock", "accel_lab", {"MOCK_CORES": "2"})
    assert AcceleratorRecord.from_json(record.to_json()) == record


def test_one_more_run_leaves_the_files_that_explain_the_failure() -> None:
    lab = MockLab(lambda s: s["front_end"] == "reference")
    lab.environment = {"variables": {}, "package": "accel_lab"}
    found = search(lab)
    asked = [settings for settings in lab.settings if settings.get("files")]
    assert asked == [{"front_end": "main", "back_end": "main", "files": True}]
    assert "files" in found.environment[KEY]  # the probe's folder, which `completion` copies from
    lab.settings.clear()
    options = Options(components=False)
    AcceleratorDiagnosis(lab, Probe(program=Program(path="/x.py", sha256="1")), options).run()
    assert not any(settings.get("files") for settings in lab.settings)


def test_the_table_is_shown() -> None:
    found = search(MockLab(lambda s: s["front_end"] == "reference"))
    assert [step.rung for step in found.ladder] == [Rung.UNCOMPILED, Rung.MOCK]
    assert {step.switch for step in found.ablation} == {row.value for row in (*COMBINATIONS, *ABLATIONS)}
    assert all(step.label for step in found.ablation)


def test_first_diverging_takes_what_the_stage_shows() -> None:
    kernels = [
        TracedKernel.from_json(kernel("a", 1.0, None)),
        TracedKernel.from_json(kernel("b", None, -1.0)),
    ]
    front, back = (first_diverging(kernels, s) for s in (Stage.MOCK_FRONT_END, Stage.MOCK_BACK_END))
    assert front is not None and back is not None and (front.name, back.name) == ("a", "b")
    assert first_diverging([], Stage.MOCK_BACK_END) is None


def test_a_refused_spec_names_its_kernel() -> None:
    message = "backend='mock' raised:\nSpecError: kernel k3_sum: its padding is not neutral (rule padding)"
    lab = MockLab(lambda s: s["front_end"] == "reference")
    lab.bad = lambda s: failing(message)
    culprit = search(lab).culprit
    assert culprit is not None and culprit.component is not None
    assert (culprit.component.name, culprit.component.detail) == ("k3_sum", "rule padding")

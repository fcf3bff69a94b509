"""The search below an adapter's accelerator: what its ways say, and what may be called proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Side, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words.evidence import line_of, sentences
from accel_lab.search.accelerator.accelerator import Accelerator
from accel_lab.search.accelerator.accelerator_rungs import GRAPHS, first_fault, stage_of
from accel_lab.search.accelerator.diagnosis import AcceleratorDiagnosis
from fakes_lab import FakeLab, failing, passing

BAD, GOOD, OTHER, SKIP = Verdict.BAD, Verdict.GOOD, Verdict.DIFFERENT, Verdict.SKIP
WAYS = [["lowered on the host", "chip.front_end"], ["on the chip's simulator", "back end"]]


class ChipLab(FakeLab):
    """A script that fails where ``fails`` says so of the rung and the way."""

    def __init__(self, fails: Callable[[str], bool], ways: Any = (), last: str = "", **changes: Any) -> None:
        super().__init__(fault=Rung.KERNEL, **changes)
        self.fails = fails
        self.ways, self.last = list(ways), last
        self.facts = True
        self.answer = self._chip

    def _chip(self, probe: Probe) -> Outcome:
        way = dict(probe.switches).get("adapter", {}).get("way", "")
        place = (way or "chip") if probe.rung is Rung.ACCELERATOR else probe.rung.value
        facts: dict[str, Any] = {"regions": [{"id": 0, "name": "f", "backend": "inductor"}]}
        if probe.rung is Rung.ACCELERATOR and (self.facts or way == GRAPHS):
            facts["accelerator"] = {
                "ways": self.ways,
                "last": self.last,
                "violations": {"alignment": 2},
            }
        common: dict[str, Any] = {"facts": facts, "warm": self.warm and not probe.cold}
        if not self.fails(place) or self._random.random() >= self.rate:
            return passing(**common)
        return failing(**common)


def search(lab: ChipLab) -> Findings:
    return AcceleratorDiagnosis(lab, Probe(program=Program(path="/x.py", sha256="0")), adapter="chip").run()


def test_a_chip_without_ways_of_its_own_is_one_box() -> None:
    found = search(ChipLab(lambda place: place == "chip"))
    culprit = found.culprit
    assert culprit is not None and culprit.component is None
    assert (culprit.stage, culprit.confidence) == (Stage.ACCELERATOR, Confidence.LIKELY)
    assert culprit.to_json()["side"] == Side.BACK_END.value
    assert any("cannot be separated" in line for line in sentences(culprit.evidence))
    assert any("alignment (2)" in line for line in map(line_of, found.warnings))
    assert [step.rung.value for step in found.ladder] == ["uncompiled", "dynamo", "aot", *["accelerator"] * 2]


@pytest.mark.parametrize(
    ("first", "stage"),
    [(WAYS[0][0], Stage.ACCELERATOR_FRONT_END), (WAYS[1][0], Stage.ACCELERATOR_BACK_END)],
)
def test_the_first_way_that_fails_is_to_blame(first: str, stage: Stage) -> None:
    order = [WAYS[0][0], WAYS[1][0], "chip"]
    found = search(ChipLab(lambda place: place in order[order.index(first) :], WAYS))
    culprit = found.culprit
    assert culprit is not None and culprit.component is not None
    assert (culprit.stage, culprit.confidence) == (stage, Confidence.PROVEN)
    assert (culprit.component.name, culprit.component.confidence) == (first, Confidence.PROVEN)


def test_ways_that_all_pass_leave_the_chip_as_a_whole() -> None:
    culprit = search(ChipLab(lambda place: place == "chip", WAYS)).culprit
    assert culprit is not None
    assert (culprit.stage, culprit.confidence) == (Stage.ACCELERATOR, Confidence.LIKELY)


def test_what_the_chip_adds_to_its_last_way_is_to_blame_where_it_says_so() -> None:
    culprit = search(ChipLab(lambda place: place == "chip", WAYS[:1], last="back end")).culprit
    assert culprit is not None and culprit.component is not None
    assert (culprit.stage, culprit.confidence) == (Stage.ACCELERATOR_BACK_END, Confidence.PROVEN)
    assert culprit.component.name == "chip as it is"
    # Without a way that leaves it out, its own word proves nothing.
    culprit = search(ChipLab(lambda place: place == "chip", (), last="back end")).culprit
    assert culprit is not None
    assert (culprit.stage, culprit.confidence) == (Stage.ACCELERATOR, Confidence.LIKELY)


def test_ways_in_no_order_prove_nothing() -> None:
    found = search(ChipLab(lambda place: place in (WAYS[0][0], "chip"), WAYS))
    assert found.culprit is not None
    assert (found.culprit.stage, found.culprit.confidence) == (
        Stage.ACCELERATOR_FRONT_END,
        Confidence.LIKELY,
    )
    assert any("rungs are not monotone" in line for line in map(line_of, found.warnings))


@pytest.mark.parametrize(
    ("first", "stage"),
    [("dynamo", Stage.DYNAMO), ("aot", Stage.AOT_AUTOGRAD), (GRAPHS, Stage.ACCELERATOR_FRONT_END)],
)
def test_what_fails_above_the_chip_is_not_its_doing(first: str, stage: Stage) -> None:
    order = ["uncompiled", "dynamo", "aot", GRAPHS, *(name for name, _ in WAYS), "chip"]
    found = search(ChipLab(lambda place: place in order[order.index(first) :], WAYS))
    assert found.culprit is not None and found.culprit.stage is stage


def test_a_script_that_fails_by_itself() -> None:
    found = search(ChipLab(lambda place: True))
    assert found.culprit is not None and found.culprit.stage is Stage.EAGER
    assert found.culprit.confidence is not Confidence.PROVEN


def test_a_script_that_passes() -> None:
    found = search(ChipLab(lambda place: False, WAYS))
    assert found.verdict == "passes" and not found.culprits


def test_a_chip_that_ends_the_process_still_has_its_ways() -> None:
    lab = ChipLab(lambda place: place in (WAYS[1][0], "chip"), WAYS)
    lab.facts = False
    culprit = search(lab).culprit
    assert culprit is not None and culprit.stage is Stage.ACCELERATOR_BACK_END


def test_an_adapter_that_does_not_load_is_told() -> None:
    lab = ChipLab(lambda place: True)
    lab.answer = lambda probe: Outcome(status=Status.NOT_APPLICABLE, notes=("adapter 'chip' is broken",))
    found = search(lab)
    assert found.verdict == "inconclusive" and "adapter 'chip' is broken" in map(line_of, found.warnings)


@pytest.mark.parametrize("seed", range(4))
def test_a_flaky_chip_is_never_given_to_another_part(seed: int) -> None:
    order = [WAYS[1][0], "chip"]
    found = search(ChipLab(lambda place: place in order, WAYS, rate=0.6, seed=seed))
    proven = [c.stage for c in found.culprits if c.confidence is Confidence.PROVEN]
    assert proven in ([], [Stage.ACCELERATOR_BACK_END])


def test_a_chip_that_offers_parts_is_searched_by_its_parts() -> None:
    lab = ChipLab(lambda place: True)

    def answer(probe: Probe) -> Outcome:
        given = dict(probe.switches).get("adapter", {})
        part = given.get("part", "")
        facts = {
            "regions": [{"id": 0, "name": "f", "backend": "chip"}],
            "accelerator": {
                "parts": ["reference_back_end", "one_core", "its_own"],
                "faults": ["cold_solder"],
            },
        }
        common: dict[str, Any] = {"facts": facts, "warm": lab.warm and not probe.cold}
        if probe.rung is Rung.ACCELERATOR and part != "reference_back_end":
            return failing(**common)
        return passing(**common)

    lab.answer = answer
    found = search(lab)
    assert {step.switch for step in found.ablation} == {"reference_back_end", "one_core"}
    assert found.culprit is not None
    assert found.culprit.stage is Stage.ACCELERATOR_BACK_END
    # The other rows of the table were not offered, which leaves a doubt.
    assert found.culprit.confidence is Confidence.LIKELY
    assert any("cold_solder" in line for line in map(line_of, found.warnings))


@pytest.mark.parametrize(
    ("verdicts", "place"),
    [
        ([GOOD, GOOD, BAD, BAD], 2),
        ([GOOD, BAD, GOOD, BAD], 1),
        ([BAD, BAD], 0),
        ([OTHER, BAD], 0),
        ([GOOD, SKIP, BAD], None),
        ([GOOD, OTHER, BAD], None),
        ([GOOD, GOOD], None),
    ],
)
def test_first_fault(verdicts: list[Verdict], place: int | None) -> None:
    assert first_fault(verdicts) == place


@pytest.mark.parametrize(
    ("blames", "stage"),
    [
        ("mock.transfer", Stage.ACCELERATOR_TRANSFER),
        ("Front End", Stage.ACCELERATOR_FRONT_END),
        ("chip.back_end", Stage.ACCELERATOR_BACK_END),
        ("the weather", Stage.ACCELERATOR),
        ("", Stage.ACCELERATOR),
    ],
)
def test_an_adapters_words_become_stages(blames: str, stage: Stage) -> None:
    assert stage_of(blames, Accelerator(name="chip")) is stage

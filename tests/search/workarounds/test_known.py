"""Known failures: what is worth a run, and what a match has to show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from accel_lab.core.findings import Component, Culprit, Findings, Step
from accel_lab.core.outcome import Frame, Outcome, Raised
from accel_lab.core.probe import Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.time_budget import SpendingTracker
from accel_lab.core.verdict import Verdict
from accel_lab.core.workarounds import Checked, KnownFailure, Workaround
from accel_lab.search.workarounds.known import Entry, KnownSearch, alike, catalogue, failure_class
from fakes_lab import PROBE, FakeLab, failing, passing

ENTRY = Entry(
    entry="1-celu",
    title="Wrong celu",
    issue=178480,
    stages=("decomposition",),
    component="aten.celu",
    fails_on=("2.9.0", "2.13.0"),
    passes_on=("2.6.0", "2.14.1", "2.15.0"),
    script="import torch\nassert False\n",
)
WRONG = Signature(kind="exception", type="AssertionError", message="mine")
LINES = Workaround(
    kind="fallback", code="torch.a = 1", where="paste", words="", verified=Checked.PLAIN
)  # fmt: skip


def found(
    stage: Stage = Stage.DECOMPOSITION, name: str = "aten.celu.default", kind: str = "decomposition"
) -> Findings:
    findings = Findings(program=Program(path="/x.py"), verdict="fails", signature=WRONG)
    part = Component(kind=kind, name=name)
    findings.culprits = [Culprit(stage=stage, component=part, confidence=Confidence.PROVEN)]
    return findings


def search(findings: Findings, ends: Callable[[str], Outcome], entry: Entry = ENTRY) -> list[KnownFailure]:
    texts: dict[str, str] = {}

    def keep(text: str) -> str:
        return texts.setdefault(text, text) and f"/run/{list(texts).index(text)}.py"

    def answer(probe: Probe) -> Outcome:
        assert probe.bare is probe.cold and probe.edited is None
        return ends(list(texts)[int(str(probe.program.path).rpartition("/")[2].removesuffix(".py"))])

    lab = FakeLab(answer=answer)
    made = KnownSearch(lab=lab, probe=PROBE, keep=keep, spending=SpendingTracker(budget_s=100.0), counts={})
    return made.run(findings, [entry])


def wrong(text: str) -> Outcome:
    return failing("another message", "AssertionError")


def test_an_entry_that_fails_the_same_way_on_this_build_is_a_match() -> None:
    (known,) = search(found(), wrong)
    assert (known.issue, known.fixed_in) == (178480, "2.14.1")
    assert known.shown == "it fails with exit code 1"


def test_an_entry_that_passes_on_this_build_is_none() -> None:
    assert search(found(), lambda text: passing()) == []


@pytest.mark.parametrize(
    ("differ", "said"),
    [(True, ["it ends without an error, and its compiled regions return wrong values"]), (False, [])],
)
def test_an_entry_that_ends_well_is_shown_by_its_values(differ: bool, said: list[str]) -> None:
    class Lab(FakeLab):
        def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[object]:
            assert reference is want and (got.seconds, want.seconds) == (2.0, 3.0)
            return [object()] if differ else []

    def answer(probe: Probe) -> Outcome:
        exact = probe.rung is Rung.UNCOMPILED and dict(probe.switches) == {"shadow": True}
        return passing(seconds=1.0 if probe.bare else 3.0 if exact else 2.0)

    spending = SpendingTracker(budget_s=0.0)
    lab = Lab(answer=answer, warm=True)
    made = KnownSearch(lab=lab, probe=PROBE, keep=lambda text: "/run/1.py", spending=spending, counts={})
    assert [one.shown for one in made.run(found(), [ENTRY])] == said
    assert [(probe.bare, probe.cold) for probe in lab.asked] == [(True, True), (False, False), (False, False)]
    crash = found()
    crash.signature = Signature(kind="exception", type="RuntimeError", message="torch's own")
    crash.baseline = [Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing("x", "RuntimeError"))]
    asked = len(lab.asked)
    made.spending = SpendingTracker(budget_s=100.0)
    assert made.run(crash, [ENTRY]) == [] and len(lab.asked) == asked + 1


def test_an_entry_that_fails_by_another_error_is_none() -> None:
    assert search(found(), lambda text: failing("x", "RuntimeError")) == []


def test_what_lets_the_script_pass_has_to_let_the_entry_pass() -> None:
    findings = found()
    findings.workarounds = [LINES]
    assert search(findings, wrong) == []
    (known,) = search(findings, lambda text: passing() if "torch.a = 1" in text else wrong(text))
    assert "passes with the lines of the first workaround" in known.shown


@pytest.mark.parametrize(
    ("findings", "worth"),
    [
        (found(), True),
        (found(name="aten.celu_.default"), True),
        (found(name="aten.relu.default"), False),
        (found(stage=Stage.LOWERING), False),
        (found(kind="function", name="aten.celu"), False),
    ],
)
def test_only_the_same_stage_and_component_are_worth_a_run(findings: Findings, worth: bool) -> None:
    assert findings.culprit is not None
    assert bool(alike(findings.culprit, [ENTRY])) is worth


def test_a_kernel_stage_that_was_not_split_may_be_any_part_of_it() -> None:
    culprit = found(stage=Stage.KERNEL, kind="op").culprit
    assert culprit is not None and alike(culprit, [replace(ENTRY, stages=("codegen",))])


def test_the_release_with_the_fix_is_newer_than_all_that_fail() -> None:
    assert ENTRY.fixed_in == "2.14.1"
    assert replace(ENTRY, passes_on=("2.6.0",)).fixed_in is None
    assert replace(ENTRY, passes_on=("nonsense",)).fixed_in is None


def raised(file: str) -> Raised:
    return Raised(type="ValueError", message="x", frames=(Frame(file=file, line=1, function="f"),))


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/home/a/script.py", "numbers"),
        ("torch/_inductor/lowering.py", "exception"),
        ("/usr/lib/python3/torch/_inductor/lowering.py", "exception"),
        ("torch/testing/_comparison.py", "numbers"),
    ],
)
def test_an_error_of_the_scripts_own_check_is_about_numbers(file: str, kind: str) -> None:
    signature = Signature(kind="exception", type="ValueError", message="x")
    assert failure_class(signature, raised(file))[0] == kind


@pytest.mark.parametrize(
    ("signature", "kind"),
    [
        (WRONG, "numbers"),
        (Signature(kind="values", type="values", message=""), "numbers"),
        (Signature(kind="exit", type="exit 1", message=""), "numbers"),
        (Signature(kind="signal", type="SIGSEGV", message=""), "signal"),
        (Signature(kind="exception", type="torch._dynamo.exc.Unsupported", message=""), "exception"),
    ],
)
def test_failures_are_compared_by_their_kind(signature: Signature, kind: str) -> None:
    assert failure_class(signature, None)[0] == kind


def test_no_entry_is_run_beyond_the_budget() -> None:
    made = KnownSearch(
        lab=FakeLab(), probe=PROBE, keep=str, spending=SpendingTracker(budget_s=1.0, used_s=2.0), counts={}
    )
    assert made.run(found(), [ENTRY]) == []


def test_an_entry_whose_second_run_has_no_time_is_told_by_its_first() -> None:
    findings = found()
    findings.workarounds = [LINES]
    (known,) = search(findings, lambda text: replace(wrong(text), seconds=99.0))
    assert known.shown == "it fails with exit code 1"


def test_every_entry_of_the_catalogue_has_a_public_issue_and_a_script() -> None:
    entries = catalogue()
    assert len(entries) >= 30 and all(entry.issue and entry.script for entry in entries)

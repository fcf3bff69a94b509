"""Reduction put to a lab: what counts as interesting, the journal of answers, the text of the repro."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import Component, Considered, Culprit, Findings, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.minimize import repro
from accel_lab.minimize.candidates import Clock, LabProblem
from accel_lab.minimize.graphs import checks_for
from accel_lab.minimize.minimizer import Minimizer
from accel_lab.minimize.result import PassingBuild, interrupted
from accel_lab.minimize.target import Target, ask, limits_for, target_of
from accel_lab.minimize.value_assertion import with_check
from accel_lab.reduction.problem import Candidate, OutOfBudget
from accel_lab.search.bisection import Pair
from accel_lab.search.premise import INSTRUMENTATION, Baseline
from accel_lab.search.repeats import Tally
from fakes_lab import FakeLab, failing, passing

#: Only the untouched script shows the failure.
HIDDEN = Considered(name=INSTRUMENTATION, open=True, why=Evidence.said("untouched"))
HIDDEN_RUNS = Tally(runs=3, failures=3)
BOOM = Signature(kind="exception", type="ValueError", message="boom")
FX = Target(signature=BOOM, bad=Rung.FX, good=Rung.DECOMP)


def source_lab(fails: Callable[[str, Rung], Outcome | None]) -> FakeLab:
    """A lab whose answers follow from the text of the program and the rung; None is a pass."""

    def answer(probe: Probe) -> Outcome:
        text = Path(str(probe.program.path)).read_text()
        return fails(text, probe.rung) or passing(facts={"regions": [{"id": 0, "name": "f"}]})

    return FakeLab(answer=answer)


def from_fx_on(text: str, rung: Rung) -> Outcome | None:
    below = (Rung.UNCOMPILED, Rung.DYNAMO, Rung.AOT, Rung.PARTITION, Rung.DECOMP)
    return failing() if "bug" in text and rung not in below else None


def problem_of(lab: FakeLab, folder: Path, target: Target = FX, **changes: Any) -> LabProblem:
    given: dict[str, Any] = {
        "lab": lab,
        "probe": Probe(program=Program(path="/x.py")),
        "target": target,
        "folder": folder,
        "clock": Clock(seconds=1e6),
        **changes,
    }
    return LabProblem(**given)


def step(rung: Rung, verdict: Verdict) -> Step:
    return Step(rung=rung, verdict=verdict, outcome=passing())


# -- the target -----------------------------------------------------------------------------------


def test_the_target_is_the_pair_of_rungs_around_the_fault() -> None:
    base = Baseline(target=BOOM, tally=Tally(runs=3, failures=3))
    ladder = [
        step(Rung.UNCOMPILED, Verdict.GOOD),
        step(Rung.DYNAMO, Verdict.GOOD),
        step(Rung.FX, Verdict.BAD),
        step(Rung.KERNEL, Verdict.BAD),
    ]
    culprit = Culprit(stage=Stage.FX_PASSES, confidence=Confidence.PROVEN)
    target, why = target_of(base, ladder, culprit)
    assert target is not None and why == ""
    assert (target.bad, target.good, target.attempts) == (Rung.FX, Rung.DYNAMO, 1)


def test_a_rung_that_fails_differently_is_not_the_one_to_reproduce() -> None:
    base = Baseline(target=BOOM, tally=Tally(runs=3, failures=3))
    ladder = [
        step(Rung.DECOMP, Verdict.GOOD),
        step(Rung.FX, Verdict.DIFFERENT),
        step(Rung.KERNEL, Verdict.BAD),
    ]
    target, _ = target_of(base, ladder, Culprit(stage=Stage.FX_PASSES, confidence=Confidence.LIKELY))
    assert target is not None and (target.bad, target.good) == (Rung.KERNEL, Rung.DECOMP)


def test_what_only_caches_show_is_reduced_with_them_on() -> None:
    base = Baseline(target=BOOM, tally=HIDDEN_RUNS, alternatives=[HIDDEN])
    pair = Pair(bad=(Rung.KERNEL, (("caches", ["fx"]),)), good=(Rung.KERNEL, ()), without="caches off")
    culprit = Culprit(stage=Stage.RUNTIME, confidence=Confidence.LIKELY)
    target, _ = target_of(base, [step(Rung.KERNEL, Verdict.GOOD)], culprit, pair)
    assert target is not None
    assert (target.bad, target.good, target.attempts) == (Rung.KERNEL, Rung.KERNEL, 1)
    assert dict(target.bad_with) == {"caches": ["fx"]} and target.good_with == ()


def test_an_eager_failure_is_reduced_uncompiled() -> None:
    base = Baseline(target=BOOM, tally=Tally(runs=2, failures=2))
    ladder = [step(Rung.UNCOMPILED, Verdict.BAD), step(Rung.KERNEL, Verdict.BAD)]
    target, _ = target_of(base, ladder, Culprit(stage=Stage.EAGER, confidence=Confidence.LIKELY))
    assert target is not None and (target.bad, target.good) == (Rung.UNCOMPILED, None)


@pytest.mark.parametrize(
    "base,stage,word",
    [
        (Baseline(), Stage.FX_PASSES, "does not fail"),
        (Baseline(target=BOOM, tally=Tally(runs=2, failures=2)), Stage.ENVIRONMENT, "environment"),
        (Baseline(target=BOOM, tally=Tally(runs=20, failures=2)), Stage.FX_PASSES, "too low"),
        (
            Baseline(target=BOOM, tally=Tally(runs=3, failures=3), alternatives=[HIDDEN]),
            Stage.RUNTIME,
            "disappears under instrumentation",
        ),
    ],
)
def test_what_cannot_be_reduced_is_said(base: Baseline, stage: Stage, word: str) -> None:
    target, why = target_of(base, [], Culprit(stage=stage, confidence=Confidence.LIKELY))
    assert target is None and word in why


def test_a_flaky_failure_is_asked_more_than_once(tmp_path: Path) -> None:
    base = Baseline(target=BOOM, tally=Tally(runs=12, failures=9))
    target, _ = target_of(base, [], None)
    assert target is not None and target.attempts >= 2
    runs = iter([passing(), failing()])
    script = tmp_path / "a.py"
    script.write_text("bug")
    lab = FakeLab(answer=lambda probe: next(runs))
    answer, outcomes = ask(lab, Probe(program=Program(path=str(script))), target)
    assert answer.interesting and len(outcomes) == 2


# -- candidates -----------------------------------------------------------------------------------


def test_a_candidate_must_fail_there_and_pass_below(tmp_path: Path) -> None:
    def fails(text: str, rung: Rung) -> Outcome | None:
        if "always" in text:
            return failing()
        return failing("other") if "other" in text else from_fx_on(text, rung)

    problem = problem_of(source_lab(fails), tmp_path)
    assert problem.submit(Candidate("bug")).result() is True
    assert problem.submit(Candidate("always")).result() is False
    assert problem.submit(Candidate("other")).result() is False
    assert problem.submit(Candidate("fine")).result() is False
    assert [c.source for c in problem.passing] == ["fine"]


def test_no_candidate_is_asked_twice_not_even_after_a_restart(tmp_path: Path) -> None:
    lab = source_lab(from_fx_on)
    first = problem_of(lab, tmp_path)
    assert first.submit(Candidate("bug")).result() and first.submit(Candidate("bug")).result()
    first.close()
    asked = len(lab.asked)
    with (tmp_path / "answers.jsonl").open("a") as stream:
        stream.write('{"key": "torn')
    again = problem_of(lab, tmp_path)
    assert again.submit(Candidate("bug")).result() is True
    assert len(lab.asked) == asked == 2


def test_the_data_beside_a_candidate_belongs_to_its_name(tmp_path: Path) -> None:
    data = tmp_path / "in.bin"
    data.write_bytes(b"1")
    problem = problem_of(source_lab(from_fx_on), tmp_path / "work")
    bare, with_data = Candidate("bug"), Candidate("bug", {"in.bin": data})
    assert problem.key(bare) != problem.key(with_data)
    probe = problem.probe_of(with_data)
    assert (Path(str(probe.program.path)).parent / "in.bin").read_bytes() == b"1"


def test_the_time_being_over_is_told_and_known_answers_still_come(tmp_path: Path) -> None:
    lab = source_lab(from_fx_on)
    known = problem_of(lab, tmp_path)
    known.submit(Candidate("bug")).result()
    late = problem_of(lab, tmp_path, clock=Clock(seconds=-1.0))
    assert late.submit(Candidate("bug")).result() is True
    with pytest.raises(OutOfBudget):
        late.submit(Candidate("new bug"))
    assert late.ran_out


def test_the_best_so_far_lies_on_disk(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    problem = problem_of(
        source_lab(from_fx_on), tmp_path, listener=lambda note, asked, source: told.append((note, asked))
    )
    problem.found(Candidate("bug\n"), "dropped it all")
    assert (tmp_path / "best.py").read_text() == "bug\n" and told == [("dropped it all", 0)]


def test_a_candidate_leaves_no_folder_behind(tmp_path: Path) -> None:
    problem = problem_of(source_lab(from_fx_on), tmp_path)
    problem.submit(Candidate("bug")).result()
    problem.close()
    assert not list((tmp_path / "candidates").iterdir())
    rows = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert [(row["bad"], row["good"]) for row in rows] == [("bad", "good")]


def test_limits_follow_the_failure() -> None:
    assert limits_for(Limits(timeout_s=300), 5.0, FX).timeout_s == 35.0
    hang = Target(signature=Signature(kind="timeout"), bad=Rung.FX)
    assert limits_for(Limits(timeout_s=300), 300.0, hang).timeout_s == 30.0


# -- silently wrong numbers -----------------------------------------------------------------------


class _Diff:
    """A recorded value that is off by ``error``."""

    def __init__(self, error: float) -> None:
        self.comparison = type("C", (), {"reason": "values", "max_abs_error": error, "detail": ""})()
        self.name, self.phase, self.region, self.call, self.path = "f", "output", "f#0", 0, "out"
        self.place, self.line = ("f", 0, "output", "out"), "f output out: off"


class _ValuesLab(FakeLab):
    """Programs whose text says by how much their compiled result is off."""

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        off = float(got.facts["off"])
        return [_Diff(off)] if off else []


def values_lab() -> _ValuesLab:
    def answer(probe: Probe) -> Outcome:
        text = Path(str(probe.program.path)).read_text()
        off = text.split("off=")[1] if "off=" in text and probe.rung is Rung.FX else 0.0
        return passing(facts={"off": off, "regions": []})

    return _ValuesLab(answer=answer)


@pytest.mark.parametrize("off,interesting", [("1.0", True), ("0.05", True), ("1e-6", False), ("0", False)])
def test_wrong_numbers_must_stay_about_as_wrong(tmp_path: Path, off: str, interesting: bool) -> None:
    target = Target(
        signature=Signature(kind="values", type="values"), bad=Rung.FX, good=Rung.DECOMP, error=1.0
    )
    problem = problem_of(values_lab(), tmp_path, target)
    assert problem.submit(Candidate(f"off={off}")).result() is interesting


# -- the repro ------------------------------------------------------------------------------------


def test_the_head_says_what_the_script_shows() -> None:
    culprit = Culprit(
        stage=Stage.FX_PASSES,
        confidence=Confidence.PROVEN,
        component=Component(kind="pass", name="remove_noop_ops", confidence=Confidence.PROVEN),
    )
    text = repro.head_comment(culprit, FX, build="2.13.0", value="", args=("--n", "3"))
    assert all(line.startswith("# ") and len(line) <= 100 for line in text.splitlines())
    flat = " ".join(line[2:] for line in text.splitlines())
    assert "fx_passes (proven); pass remove_noop_ops." in flat
    assert "Fails on torch 2.13.0: ValueError: boom" in flat
    assert "It passes with backend='aot_eager_decomp_partition'." in flat
    assert "python repro.py --n 3" in flat and "Exits with 1 while the bug is there" in flat


def test_the_head_stands_before_future_imports_and_a_hang_ends_itself() -> None:
    hang = Target(signature=Signature(kind="timeout"), bad=Rung.KERNEL)
    made = repro.with_head(Candidate("from __future__ import annotations\nimport torch\n"), "# a", hang)
    lines = made.source.splitlines()
    assert lines[:2] == ["# a", "from __future__ import annotations"]
    assert "faulthandler.dump_traceback_later(60, exit=True)" in made.source
    compile(made.source, "repro.py", "exec")


def test_the_nearest_passing_neighbour_is_the_most_alike() -> None:
    result = Candidate("a\nb\nc\n")
    far, near = Candidate("z\n"), Candidate("a\nb\nd\n")
    assert repro.nearest_passing([near, far], result) is near
    assert repro.nearest_passing([Candidate("a\nb\nc\n")], result) is None
    assert "+c" in repro.source_diff(near, result)


def test_a_repro_that_does_not_fail_by_itself_is_not_proven(tmp_path: Path) -> None:
    def fails(text: str, rung: Rung) -> Outcome | None:
        return from_fx_on(text, rung)

    lab = source_lab(fails)
    probe = Probe(program=Program(path="x"))
    good = repro.prove(lab, probe, Candidate("bug"), FX, tmp_path / "a", "k1", Limits())
    bad = repro.prove(lab, probe, Candidate("nothing"), FX, tmp_path / "b", "k2", Limits())
    assert good.holds and not bad.holds
    assert good.plain == "exit 1" and bad.plain == "exit 0"
    plain = [p for p in lab.asked if p.bare]
    assert len(plain) == 2 and all(p.cold for p in plain)


def test_the_check_is_built_into_a_silent_script() -> None:
    made = with_check(
        "import torch\n\n@torch.compile(dynamic=True)\ndef f(x):\n    return x\n\nf(1)\n", rtol=0.1, atol=0.2
    )
    assert made is not None
    assert "@checked_compile(dynamic=True)" in made and "rtol=0.1, atol=0.2, equal_nan=True" in made
    assert made.index("def checked_compile") < made.index("@checked_compile")
    compile(made, "repro.py", "exec")
    assert with_check("import torch\n", rtol=0.1, atol=0.1) is None


# -- the whole way --------------------------------------------------------------------------------

SCRIPT = """
import math

def unused(x):
    return math.sqrt(x)

def build(n):
    values = list(range(n))
    return values

data = build(12)
print("before", data)
if data:
    total = sum(data)
    trigger = total * 2
print("after")
"""


def minimizer(
    tmp_path: Path, lab: FakeLab, seconds: float = 1e6, passing_build: PassingBuild | None = None
) -> Minimizer:
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    (tmp_path / "run").mkdir(exist_ok=True)
    program = Program(path=str(script), args=("--n", "3"))
    ladder = [
        step(Rung.UNCOMPILED, Verdict.GOOD),
        step(Rung.DYNAMO, Verdict.GOOD),
        step(Rung.DECOMP, Verdict.GOOD),
        step(Rung.FX, Verdict.BAD),
        step(Rung.KERNEL, Verdict.BAD),
    ]
    findings = Findings(program=program, verdict="fails", ladder=ladder)
    findings.culprits = [Culprit(stage=Stage.FX_PASSES, confidence=Confidence.PROVEN)]
    return Minimizer(
        lab=lab,
        probe=Probe(program=program),
        base=Baseline(target=BOOM, tally=Tally(runs=3, failures=3)),
        findings=findings,
        folder=tmp_path / "run",
        seconds=seconds,
        build="9.9.9",
        passing_build=passing_build,
    )


def needs_the_trigger(text: str, rung: Rung) -> Outcome | None:
    """Fails from the FX passes on where the word is bound to something."""
    return from_fx_on("bug" if "trigger =" in text else "", rung)


def test_a_script_is_shrunk_proven_and_written_with_its_neighbour(tmp_path: Path) -> None:
    result = minimizer(tmp_path, source_lab(needs_the_trigger)).run()
    assert result.verified and result.minimal and result.kind == "script" and not result.why_not
    assert result.lines_before == 11 and result.lines_after is not None and result.lines_after <= 2
    text = Path(str(result.script)).read_text()
    code = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(code) <= 2 and code[-1].startswith("trigger = ")
    assert "# Stage at fault: fx_passes (proven)." in text and "--n 3" in text
    assert result.proof.plain == "exit 1"
    assert "trigger =" not in Path(str(result.min_good)).read_text()
    assert any("no graph repro" in note for note in result.notes)


@pytest.mark.parametrize("passes", [True, False])
def test_a_repro_must_pass_where_the_script_passes(tmp_path: Path, passes: bool) -> None:
    other = source_lab((lambda text, rung: None) if passes else needs_the_trigger)
    build = PassingBuild(
        name="torch 9.9.8", lab=other, probe=Probe(program=Program(path="x"), environment="other")
    )
    result = minimizer(tmp_path, source_lab(needs_the_trigger), passing_build=build).run()
    # The repro is run there once, on the rung that a user would run; no candidate is.
    assert {probe.rung for probe in other.asked} == {Rung.KERNEL}
    assert all(probe.environment == "other" for probe in other.asked)
    if passes:
        assert result.verified
        assert result.proof.elsewhere == "torch 9.9.8: good"
        assert "passes on torch 9.9.8, as the script does" in result.proof.words
    else:
        assert result.script is None
        assert any("fails on torch 9.9.8 too" in note for note in result.notes)


def test_a_reduction_that_starts_again_asks_nothing_twice(tmp_path: Path) -> None:
    first = source_lab(needs_the_trigger)
    one = minimizer(tmp_path, first).run()
    again = source_lab(needs_the_trigger)
    two = minimizer(tmp_path, again).run()
    asked = [{(p.program.sha256, p.rung, p.bare) for p in lab.asked} for lab in (first, again)]
    repeated = {row for row in asked[0] & asked[1] if "/repro/" not in str(row)}
    # The proof and the neighbour are asked again here: a real lab finds them in its own journal.
    assert len(repeated) <= 9 < one.candidates and two.candidates <= 2
    assert Path(str(one.script)).read_text() == Path(str(two.script)).read_text()


def test_with_no_time_at_all_nothing_is_claimed(tmp_path: Path) -> None:
    lab = source_lab(needs_the_trigger)
    result = minimizer(tmp_path, lab, seconds=-1.0).run()
    assert result.script is None and result.why_not and not result.verified


def test_a_repro_that_fails_only_with_instruments_is_not_offered(tmp_path: Path) -> None:
    lab = source_lab(needs_the_trigger)
    honest = lab.answer
    lab.answer = lambda probe: passing() if probe.bare else honest(probe)
    result = minimizer(tmp_path, lab).run()
    assert result.script is None and not result.verified
    assert any("did not hold" in note for note in result.notes)


def test_a_run_that_was_stopped_leaves_its_best(tmp_path: Path) -> None:
    assert interrupted(tmp_path).why_not
    (tmp_path / "reduce" / "script").mkdir(parents=True)
    (tmp_path / "reduce" / "script" / "best.py").write_text("import torch\nx = 1\n")
    left = interrupted(tmp_path)
    assert str(left.script).endswith("best.py") and not left.verified and left.kind == "script"


@pytest.mark.parametrize("error,first", [(0.0, None), (0.5, (1e-2, 0.05)), (3e-5, (1e-2, 3e-06))])
def test_comparisons_are_tried_from_the_most_generous(
    error: float, first: tuple[float, float] | None
) -> None:
    checks = checks_for(error)
    assert checks[0].tolerance == first
    assert all(check.tolerance is None or check.tolerance[1] >= error / 101 for check in checks)


def test_statuses_that_tell_nothing_are_not_interesting(tmp_path: Path) -> None:
    lab = FakeLab(answer=lambda probe: Outcome(status=Status.NOT_APPLICABLE))
    assert problem_of(lab, tmp_path).submit(Candidate("bug")).result() is False

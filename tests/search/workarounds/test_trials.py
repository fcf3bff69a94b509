"""Workarounds: what is tried, what counts as passing, and the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit, Findings, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.releases.versions import Versions
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.time_budget import SpendingTracker
from accel_lab.core.verdict import Verdict
from accel_lab.core.workarounds import Checked
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally
from accel_lab.search.workarounds.candidates import Candidate, candidates, passing_backend
from accel_lab.search.workarounds.releases import of_releases
from accel_lab.search.workarounds.trials import RegionSeconds, Trials
from fakes_lab import PROBE, FakeLab, failing, passing

SOURCE = """import torch

def inner(x):
    return x

@torch.compile
def f(x):
    return inner(x)
"""
BOOM = Signature(kind="exception", type="ValueError", message="boom")


#: The last resorts: one function is not compiled, none that torch.compile is called on, none at all.
OFF = ("disable", "disable", "disable")


def findings(stage: Stage, part: Component | None = None, *, good: tuple[Rung, ...] = ()) -> Findings:
    found = Findings(program=Program(path="/x/script.py"), verdict="fails", signature=BOOM)
    found.culprits = [Culprit(stage=stage, component=part, confidence=Confidence.PROVEN)]
    found.ladder = [
        *(Step(rung=rung, verdict=Verdict.GOOD, outcome=passing()) for rung in good),
        Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing()),
    ]
    return found


def codes(found: Findings) -> list[tuple[str, str]]:
    return [(one.kind, one.code) for one in candidates(found, SOURCE)]


def test_a_python_kernel_is_removed_besides_the_decomposition() -> None:
    part = Component(kind="decomposition", name="aten.dropout.default")
    traced = Evidence.of(
        EvidenceKind.PYTHON_KERNEL_TRACED,
        at=Rung.AOT,
        kernel="torch._decomp.decompositions.dropout",
        operator="aten.dropout.default",
        under=["aten.native_dropout.default"],
    )
    found = findings(Stage.DECOMPOSITION, part)
    found.culprits = [replace(found.culprits[0], evidence=(traced,))]
    kind, code = codes(found)[0]
    assert kind == "fallback" and "decompositions.pop(torch.ops.aten.dropout.default" in code
    for name in ("dropout", "native_dropout"):
        assert f"    del torch.ops.aten.{name}.default.py_kernels[_key]" in code
    found.culprits = [replace(found.culprits[0], evidence=())]
    assert "py_kernels" not in codes(found)[0][1]


def test_an_operator_falls_back_before_another_backend_is_taken() -> None:
    part = Component(kind="op", name="aten.min.dim")
    got = codes(findings(Stage.CODEGEN, part, good=(Rung.DYNAMO, Rung.DECOMP)))
    assert [kind for kind, _ in got] == ["fallback", "backend", *OFF]
    assert "make_fallback(torch.ops.aten.min.dim" in got[0][1]
    assert got[1][1] == "torch.compile(backend='aot_eager_decomp_partition')"


def test_a_decomposition_is_taken_out_of_the_table_too() -> None:
    part = Component(kind="decomposition", name="aten.celu.default")
    first = codes(findings(Stage.DECOMPOSITION, part))[0]
    assert first[0] == "fallback" and "decompositions.pop(torch.ops.aten.celu.default, None)" in first[1]


@pytest.mark.parametrize(
    ("torch", "tagged"), [("2.13.0+cpu", True), ("2.6.0", True), ("2.5.1", False), ("", False)]
)
def test_a_kernel_that_torch_cached_before_is_not_used(torch: str, tagged: bool) -> None:
    found = findings(Stage.CODEGEN, Component(kind="op", name="aten.min.dim"))
    found.baseline = [Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing(torch=torch))]
    assert ("cache_key_tag = 'aten.min.dim eager'" in codes(found)[0][1]) is tagged


@pytest.mark.parametrize(
    ("stage", "part", "kinds"),
    [
        (Stage.DYNAMO, Component(kind="frame", name="inner", cure="torch.compiler.disable on inner"),
         ["disable", "dynamic", "dynamic", *OFF]),
        (Stage.DYNAMO, Component(kind="setting", name="x", cure="torch._dynamo.config.x = False"),
         ["setting", "dynamic", "dynamic", *OFF]),
        (Stage.DYNAMO, Component(kind="guard", name="p"),
         ["setting", "setting", "dynamic", "dynamic", "clone", *OFF]),
        (Stage.DYNAMO, Component(kind="guard", name="hooks(self)"),
         ["setting", "dynamic", "dynamic", "clone", *OFF]),
        (Stage.AOT_AUTOGRAD, Component(kind="op", name="add_"), ["dynamic", "dynamic", "clone", *OFF]),
        (Stage.FX_PASSES, Component(kind="pass", name="remove_noop_ops",
                                    detail="post-grad graph (torch/_inductor/fx_passes/post_grad.py:3)"),
         ["pass", "pass", *OFF]),
        (Stage.FX_PASSES, Component(kind="pattern", name="p", detail="on the joint graph"),
         ["pass", "pass", *OFF]),
        (Stage.FX_PASSES, Component(kind="reinplacing", name="reinplace_inplaceable_ops of aten.index_put"),
         ["pass", *OFF]),
        (Stage.EAGER, None, []),
        (Stage.ENVIRONMENT, None, []),
    ],
)  # fmt: skip
def test_what_is_tried_fits_the_stage(stage: Stage, part: Component | None, kinds: list[str]) -> None:
    assert [kind for kind, _ in codes(findings(stage, part))] == kinds


def test_a_setting_that_cured_is_tried_as_lines() -> None:
    found = findings(Stage.SCHEDULER)
    step = replace(found.ladder[-1], verdict=Verdict.GOOD, switch="fusion", label="no fusion")
    found.ablation = [replace(step, settings=(("inductor", {"a": 1, "b": False}),))]
    setting = next(one for one in candidates(found, SOURCE) if one.kind == "setting")
    assert setting.words == "no fusion" and len(setting.code.splitlines()) == 2


@pytest.mark.parametrize(
    ("again", "dynamic", "tried"),
    [([], None, False), ([{"reason": "size"}], None, True), ([], True, True), ([], False, True)],
)
def test_shapes_are_tried_where_code_was_compiled_again_or_dynamic_was_given(
    again: list[Any], dynamic: bool | None, tried: bool
) -> None:
    found = findings(Stage.DYNAMO)
    facts = {"compiles": {"again": again}, "regions": [{"id": 0, "dynamic": dynamic}]}
    found.baseline = [Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=failing(facts=facts))]
    assert ("dynamic" in [kind for kind, _ in codes(found)]) is tried


def test_last_of_all_nothing_is_compiled_unless_the_failure_is_silent() -> None:
    found = findings(Stage.DYNAMO)
    assert [code for _, code in codes(found)[-2:]] == [
        "torch.compile(disable=True)",
        "torch._dynamo.config.disable = True",
    ]
    found.signature = Signature(kind="values")
    assert not any("disable =" in code or "disable=" in code for _, code in codes(found))


def test_the_backend_is_the_last_one_below_the_failure() -> None:
    assert passing_backend(findings(Stage.FX_PASSES, good=(Rung.DYNAMO, Rung.PARTITION))) == "aot_eager"
    assert passing_backend(findings(Stage.DYNAMO)) == ""


# -- the runs ------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """The texts of the run, by the path that stands for each."""

    texts: dict[str, str] = field(default_factory=dict)

    def keep(self, text: str) -> str:
        path = f"/run/{len(self.texts)}.py"
        self.texts[path] = text
        return path

    def shown(self, probe: Probe) -> str:
        return self.texts[probe.edited[1]] if probe.edited else ""


def trials(
    passes: Callable[[str], bool],
    *,
    budget_s: float = 100.0,
    tally: Tally | None = None,
    seconds_of: Callable[[Outcome], RegionSeconds | None] = lambda outcome: None,
    kind: str = "exception",
    recorded: dict[str, Any] | None = None,
) -> tuple[Trials, FakeLab]:
    kept = Kept()

    def answer(probe: Probe) -> Outcome:
        facts = {} if probe.bare or recorded is None else recorded
        text = kept.shown(probe)
        ok = passes(text) or (kind == "values")
        return passing(seconds=10.0, folder=text, facts=facts) if ok else failing(seconds=10.0)

    lab = FakeLab(answer=answer)
    base = Baseline(target=replace(BOOM, kind=kind), tally=tally or Tally(runs=2, failures=2))
    base.uncompiled = passing()
    made = Trials(
        lab=lab, probe=PROBE, baseline=base, path="/x/script.py", source=SOURCE, keep=kept.keep,
        clock=lambda text: "clock\n" + text, seconds_of=seconds_of,
        spending=SpendingTracker(budget_s=budget_s),
    )  # fmt: skip
    return made, lab


def tried(found: Findings | None = None) -> list[Candidate]:
    part = Component(kind="op", name="aten.min.dim")
    return candidates(found or findings(Stage.CODEGEN, part, good=(Rung.DYNAMO,)), SOURCE)


def test_only_what_passed_is_kept_and_runs_are_plain_and_cold() -> None:
    made, lab = trials(lambda text: "backend='eager'" in text)
    (only,) = made.run(tried())
    assert only.kind == "backend" and only.verified is Checked.PLAIN
    assert only.cost is not None and only.cost.of == "run" and only.cost.seconds == 10.0
    assert all(probe.bare and probe.cold and not probe.switches for probe in lab.asked)
    assert all(probe.edited is not None and probe.edited[0] == "/x/script.py" for probe in lab.asked)


def test_nothing_passes_and_nothing_is_said() -> None:
    assert trials(lambda text: False)[0].run(tried()) == []


def test_the_wider_changes_are_left_where_a_narrow_one_passes() -> None:
    made, lab = trials(lambda text: True)
    assert [one.kind for one in made.run(tried())] == ["fallback"]
    assert len(lab.asked) == 3  # the trial, the wide one beside it, and one to measure


def test_no_run_is_started_beyond_the_budget() -> None:
    made, lab = trials(lambda text: False, budget_s=15.0)
    assert made.run(tried()) == [] and len(lab.asked) == 4  # of five: the first, and three that are sure
    made, lab = trials(lambda text: True, budget_s=0.0)
    made.spending.longest_s = 1.0
    assert made.run(tried()) == [] and not lab.asked


def test_the_narrowest_and_a_wide_way_are_run_first_and_side_by_side() -> None:
    found = findings(Stage.DYNAMO, Component(kind="guard", name="p"), good=(Rung.DYNAMO,))
    made, lab = trials(lambda text: "guard_nn_modules" not in text, budget_s=15.0)
    assert [one.kind for one in made.run(tried(found))] == ["backend"]
    assert len(lab.asked) == 2 and all(probe.bare for probe in lab.asked)
    made, lab = trials(lambda text: "guard_nn_modules" in text, budget_s=15.0)
    assert [one.kind for one in made.run(tried(found))] == ["setting"]
    made, lab = trials(lambda text: True, budget_s=1000.0)
    assert [one.kind for one in made.run(tried(found))] == ["setting", "setting", "dynamic"]
    assert len(lab.asked) == 7  # each once, the wide one, and three to measure


def test_a_failure_that_comes_and_goes_is_asked_often_enough_or_not_at_all() -> None:
    made, lab = trials(lambda text: True, tally=Tally(runs=20, failures=18))
    assert made.run(tried()[:1])
    assert len([p for p in lab.asked if p.attempt > 0]) >= 1
    made, lab = trials(lambda text: True, tally=Tally(runs=20, failures=2))
    assert made.run(tried()[:1]) == [] and not lab.asked


def test_silent_numbers_are_compared_by_the_lab_and_said_so() -> None:
    made, lab = trials(lambda text: True, kind="values", recorded={"regions": [{"id": 0}]})
    first = made.run(tried()[:1])[0]
    assert first.verified is Checked.VALUES
    assert [probe.bare for probe in lab.asked[:2]] == [True, False]


def test_nothing_compiled_shows_nothing_of_silent_numbers() -> None:
    made, _ = trials(lambda text: True, kind="values", recorded={"regions": []})
    assert made.run(tried()[:1]) == []


def test_the_cheapest_comes_first_and_small_differences_do_not_count() -> None:
    def seconds(outcome: Outcome) -> RegionSeconds:
        slow = "b.slow" in outcome.folder
        return RegionSeconds(compiled=4e-3 if slow else 1e-3, plain=2e-3, runs=9)

    found = findings(Stage.SCHEDULER)
    step = replace(found.ladder[-1], verdict=Verdict.GOOD, switch="one")
    found.ablation = [
        replace(step, label=name, settings=(("inductor", {f"b.{name}": 1}),)) for name in ("slow", "quick")
    ]
    made, _ = trials(lambda text: True, seconds_of=seconds)
    ordered = made.run(candidates(found, SOURCE))
    assert [one.words for one in ordered] == ["quick", "slow"]
    cost = ordered[0].cost
    assert cost is not None and (cost.of, cost.eager, cost.runs) == ("region", 2e-3, 9)


# -- releases ------------------------------------------------------------------------------------------


def versions(flips: list[dict[str, Any]], own: dict[str, Any] | None = None) -> Findings:
    tested = [{"torch": name, "verdict": verdict} for name, verdict in
              (("2.4.1", "good"), ("2.5.0", "bad"), ("2.9.0", "good"))]  # fmt: skip
    found = Findings(program=Program(path="/x.py"))
    found.versions = Versions.from_json({"tested": tested, "flips": flips, "own": own or {}})
    return found


INTRODUCED = {"kind": "introduced", "after": "2.4.1", "at": "2.5.0"}
FIXED = {"kind": "fixed", "after": "2.5.0", "at": "2.9.0"}


@pytest.mark.parametrize(
    ("found", "torch"),
    [
        (versions([INTRODUCED]), "2.4.1"),
        (versions([INTRODUCED, FIXED]), "2.9.0"),
        (versions([{"kind": "introduced", "after": "2.4.0", "at": "2.5.0"}]), None),
        (versions([INTRODUCED], {"torch": "2.14.1", "relation": "fixed_by"}), "2.14.1"),
        (versions([]), None),
        (Findings(program=Program(path="/x.py")), None),
    ],
)
def test_a_release_is_named_where_the_script_was_run_on_it(found: Findings, torch: str | None) -> None:
    got = list(of_releases(found))
    assert [one.code for one in got] == ([f'pip install "torch=={torch}"'] if torch else [])
    assert all(one.verified is Checked.RELEASE for one in got)

"""Naming inside Dynamo, AOTAutograd and the partitioner, on a compiler that is only described."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.findings import Step
from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.numerics.records import Difference
from accel_lab.numerics.values import Comparison
from accel_lab.reporting.words.evidence import sentences, words_of
from accel_lab.search.alternatives import baked_attribute
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.localize.components import localize_component
from accel_lab.search.localize.dynamo_guards import find_guard
from accel_lab.search.localize.localization import Localization
from accel_lab.search.localize.question_budget import MOST, MOST_OF_A_HANG, Questions, user_line
from accel_lab.search.premise import Baseline
from accel_lab.search.repeats import Tally
from fakes_lab import FakeLab, failing, passing

Switch = Mapping[str, Any]


def front(probe: Probe) -> Switch:
    return dict(dict(probe.switches).get("front") or {})


def call(
    number: int,
    before: Mapping[str, str] | None = None,
    after: Mapping[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    row = {"region": 0, "call": number, "before": before or {}, "after": after or {}, "raised": ""}
    return {**row, "born": [number] if number == 0 else [], "ran": [0], "guards": [0], **more}


def difference(at: int, phase: str = "output", reason: str = "values") -> Difference:
    return Difference(
        region="f#0",
        name="f",
        call=at,
        phase=phase,
        path="out",
        comparison=Comparison(same=False, reason=reason, detail="1 instead of 2"),
    )


class Lab(FakeLab):
    """``wrong`` are the values that differ wherever the fault is there."""

    wrong: Sequence[Difference] = ()

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        return list(self.wrong) if got.status is not Status.OK else []


def climb(
    facts: Mapping[str, Any],
    cured: Callable[[Switch], bool],
    *,
    plain: Mapping[str, Any] | None = None,
    mended: Mapping[str, Any] | None = None,
    wrong: Sequence[Difference] = (),
    failure: Outcome | None = None,
    failures: int = 9,
    fullgraph: bool = False,
) -> tuple[LadderRunner, Lab, Step]:
    failure = failure or failing()
    regions = [{"id": 0, "name": "f", "fullgraph": fullgraph}]

    def answer(probe: Probe) -> Outcome:
        switch = front(probe)
        if probe.rung is Rung.UNCOMPILED:
            return passing(facts={"front": plain or {}, "regions": regions})
        if cured(switch):
            return passing(facts={"front": mended or plain or {}, "regions": regions})
        return replace(failure, facts={"front": facts, "regions": regions})

    lab = Lab(answer=answer)
    lab.wrong = wrong
    base = Baseline(
        target=signature_of(failure), tally=Tally(runs=9, failures=failures), uncompiled=passing()
    )
    runner = LadderRunner(lab=lab, probe=Probe(program=Program(path="x.py")), baseline=base)
    return runner, lab, Step(rung=Rung.DYNAMO, verdict=Verdict.BAD, outcome=failure, failures=1)


def dynamo(
    facts: Mapping[str, Any], cured: Callable[[Switch], bool], **more: Any
) -> tuple[Localization, Lab]:
    runner, lab, at = climb(facts, cured, **more)
    return localize_component(runner, Stage.DYNAMO, at, ladder=[at]), lab


def graphs(
    stage: Stage, units: Sequence[str], cured: Callable[[Switch], bool], **more: Any
) -> tuple[Localization, Lab]:
    rows = [{"key": f"0:{unit}", "target": unit, "line": f"line of {unit}"} for unit in units]
    runner, lab, at = climb({"units": rows}, cured, **more)
    return localize_component(runner, stage, replace(at, rung=Rung.AOT), ladder=[at]), lab


CODE = {
    "frames": [{"key": "f a.py:1", "call": 0}, {"key": "g a.py:9", "call": 0}],
    "inlined": [{"key": "h a.py:20", "caller": "f a.py:1"}, {"key": "k a.py:30", "caller": "h a.py:20"}],
}


def test_the_innermost_function_that_must_be_traced_is_named() -> None:
    named, _ = dynamo(CODE, lambda s: bool({"f a.py:1", "h a.py:20"} & set(s.get("eager", ()))))
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("function", "h")
    assert named.component.confidence is Confidence.PROVEN
    assert "f a.py:1 around it" in words_of(named.evidence[0])


def test_a_frame_among_several_is_named() -> None:
    named, _ = dynamo(CODE, lambda s: "g a.py:9" in s.get("eager", ()))
    assert named.component is not None and (named.component.kind, named.component.name) == ("frame", "g")
    assert named.component.confidence is Confidence.PROVEN


def test_two_functions_side_by_side_are_no_proof() -> None:
    named, _ = dynamo(CODE, lambda s: bool({"g a.py:9", "h a.py:20"} & set(s.get("eager", ()))))
    assert named.component is not None and named.component.confidence is Confidence.LIKELY
    assert "g" in named.component.name and "h" in named.component.name


def test_the_only_frame_is_no_component() -> None:
    facts = {"frames": [{"key": "f a.py:1", "call": 0}]}
    named, _ = dynamo(facts, lambda s: bool(s.get("eager")))
    assert named.component is None
    assert sentences(named.evidence) == ["f a.py:1 is all the code that Dynamo compiled"]


def traced(key: str, *segments: list[int]) -> dict[str, Any]:
    source = {str(line): f"    line {line}" for segment in segments for line in segment}
    return {"lines": {key: {"segments": list(segments), "source": source}}}


def until(switch: Switch, place: int) -> bool:
    """Whether the trace ends at this place or before it, or the function is left as it is."""
    key, ended = switch.get("stop") or ("f a.py:1", 99)
    return "f a.py:1" in switch.get("eager", ()) or (key == "f a.py:1" and ended <= place)


@given(st.integers(0, 40), st.integers(2, 41))
def test_the_line_that_must_be_traced_is_found(guilty: int, size: int) -> None:
    guilty = min(guilty, size - 1)
    facts = {
        "frames": [{"key": "f a.py:1", "call": 0}],
        **traced("f a.py:1", *([2 * n + 2, 2 * n + 3] for n in range(size))),
    }
    named, lab = dynamo(facts, lambda s: until(s, guilty))
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("line", f"a.py:{2 * guilty + 2}-{2 * guilty + 3}")
    assert named.component.confidence is Confidence.PROVEN
    assert "ends before line" in words_of(named.evidence[-1])
    (exhibit,) = named.exhibits[-1:]
    assert exhibit.marked == (2 * guilty + 1, 2 * guilty + 2)
    assert len(lab.asked) <= MOST


def test_a_line_behind_which_it_fails_in_another_way_is_no_proof() -> None:
    facts = {"frames": [{"key": "f a.py:1", "call": 0}], **traced("f a.py:1", [], [2], [3], [4])}
    runner, lab, at = climb(facts, lambda s: until(s, 2))
    answer = lab.answer
    ended = {"stop": ["f a.py:1", 3]}
    lab.answer = lambda probe: failing("another") if front(probe) == ended else answer(probe)
    named = localize_component(runner, Stage.DYNAMO, at, ladder=[at])
    assert named.component is not None and named.component.name == "a.py:3"
    assert named.component.confidence is Confidence.LIKELY
    assert "fails in another way" in words_of(named.evidence[-1])


def test_no_line_is_named_where_a_trace_cannot_be_ended_or_fails_before_its_first() -> None:
    facts = {"frames": [{"key": "f a.py:1", "call": 0}], **traced("f a.py:1", [], [2], [3], [4])}
    runner, lab, at = climb(facts, lambda s: until(s, 0))
    assert localize_component(runner, Stage.DYNAMO, at, ladder=[at]).component is None
    answer = lab.answer
    lab.answer = lambda probe: (
        Outcome(status=Status.NOT_APPLICABLE) if front(probe).get("stop") else answer(probe)
    )
    assert localize_component(runner, Stage.DYNAMO, at, ladder=[at]).component is None


def test_the_line_of_a_graph_that_was_used_again_is_likely_at_most() -> None:
    facts = {
        "frames": [{"key": "f a.py:1", "call": 0}],
        "calls": [call(0), call(1)],
        **traced("f a.py:1", [], [2], [3], [4]),
    }
    named, _ = dynamo(facts, lambda s: until(s, 2))
    assert named.component is not None
    assert (named.component.name, named.component.confidence) == ("a.py:3", Confidence.LIKELY)


def test_the_line_of_an_inlined_function_is_sought_where_it_has_a_trace_of_its_own() -> None:
    facts = {
        "frames": [{"key": "f a.py:1", "call": 0}],
        "inlined": [{"key": "h a.py:20", "caller": "f a.py:1"}],
        **traced("h a.py:20", [21], [22], [23]),
    }

    def cured(switch: Switch) -> bool:
        return "h a.py:20" in switch.get("eager", ()) or (switch.get("stop") or ("", 9))[1] <= 1

    named, lab = dynamo(facts, cured)
    assert named.component is not None and named.component.name == "h"
    assert "at a.py:22: line 22 in h" in named.component.detail
    stops = [front(probe) for probe in lab.asked if front(probe).get("stop")]
    assert stops and all(stop["eager"] == ["f a.py:1"] for stop in stops)


def test_allowing_graph_breaks_must_not_be_the_cure() -> None:
    named, lab = dynamo(CODE, lambda s: s.get("fullgraph") is False, fullgraph=True)
    assert named.component is None
    assert not any(front(probe).get("eager") for probe in lab.asked)


def test_a_failure_that_looking_cures_is_not_searched() -> None:
    named, lab = dynamo(CODE, lambda s: bool(s))
    assert named.component is None and len(lab.asked) == 1


@given(st.integers(1, 150), st.data())
def test_one_of_many_functions_is_found_within_the_count(size: int, data: st.DataObject) -> None:
    keys = [f"f{n} a.py:{n}" for n in range(size)]
    guilty = data.draw(st.sampled_from(keys))
    facts = {"frames": [{"key": "top b.py:1", "call": 0}, *({"key": key, "call": 0} for key in keys)]}
    named, lab = dynamo(facts, lambda s: guilty in s.get("eager", ()))
    assert named.component is not None and named.component.name == guilty.split(" ")[0]
    assert len(lab.asked) <= MOST


def stale(**changed: tuple[str, str]) -> dict[str, Any]:
    first = {name: values[0] for name, values in changed.items()}
    later = {name: values[1] for name, values in changed.items()}
    return {"calls": [call(0, first), call(1, later)], "names": list(changed), "guards": ["L['t']"]}


FINE = {"calls": [call(0), call(1)]}


def test_the_value_without_a_guard_is_proven() -> None:
    facts = stale(factor=("2", "5"), k=("1", "3"))
    named, _ = dynamo(facts, lambda s: "factor" in s.get("guard_on", ()), plain=FINE, wrong=[difference(1)])
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("guard", "factor")
    assert named.component.confidence is Confidence.PROVEN
    assert ("factor", "2", "5", "no") in named.exhibits[0].rows


def test_arguments_that_share_memory_later_are_a_value_like_others() -> None:
    facts = stale(**{"overlap(p, q)": ("apart", "they share memory"), "p": ("float32 [4]", "float32 [5]")})
    facts["names"] = ["p"]  # no code names an overlap
    named, _ = dynamo(
        facts, lambda s: "overlap(p, q)" in s.get("guard_on", ()), plain=FINE, wrong=[difference(1)]
    )
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("guard", "overlap(p, q)")


def test_values_that_change_together_are_no_proof() -> None:
    facts = stale(a=("2", "5"), b=("1", "3"))
    named, _ = dynamo(facts, lambda s: bool(s.get("guard_on")), plain=FINE, wrong=[difference(1)])
    assert named.component is not None and named.component.confidence is Confidence.LIKELY
    assert named.component.name == "a, b"


def test_a_value_that_the_graph_does_guard_is_no_proof() -> None:
    facts = stale(t=("[3]", "[4]"))
    named, _ = dynamo(facts, lambda s: bool(s.get("guard_on")), plain=FINE, wrong=[difference(1)])
    assert named.component is not None and named.component.confidence is Confidence.LIKELY


def test_without_a_wrong_call_no_guard_is_blamed() -> None:
    named, lab = dynamo(stale(factor=("2", "5")), lambda s: bool(s.get("guard_on")), plain=FINE)
    assert named.component is None
    assert not any(front(probe).get("guard_on") for probe in lab.asked)


def test_a_call_that_captured_its_own_graph_lacks_no_guard() -> None:
    facts = stale(factor=("2", "5"))
    facts["calls"][1].update(born=[1], ran=[1])
    named, _ = dynamo(facts, lambda s: bool(s.get("guard_on")), plain=FINE, wrong=[difference(1)])
    assert named.component is None


def test_the_stale_graph_of_a_higher_rung_is_looked_into() -> None:
    facts = stale(factor=("2", "5"))
    runner, lab, _ = climb(facts, lambda s: bool(s.get("guard_on")), plain=FINE, wrong=[difference(1)])
    named = find_guard(runner, Rung.AOT)
    assert named is not None and named.component is not None and named.component.name == "factor"
    assert {probe.rung for probe in lab.asked} == {Rung.AOT, Rung.UNCOMPILED}


LOST = {**CODE, "calls": [call(0, after={"log": "list of 0: "})]}
KEPT = {"calls": [call(0, after={"log": "list of 1: 3"})]}


def test_a_lost_side_effect_is_named_with_its_function() -> None:
    named, _ = dynamo(LOST, lambda s: "h a.py:20" in s.get("eager", ()), plain=KEPT)
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("side_effect", "log (list)")
    assert named.component.confidence is Confidence.PROVEN
    assert "h a.py:20" in named.component.detail


def test_state_that_stays_different_when_it_passes_is_no_side_effect() -> None:
    named, _ = dynamo(LOST, lambda s: "h a.py:20" in s.get("eager", ()), plain=KEPT, mended=LOST)
    assert named.component is not None and named.component.kind == "function"


def test_state_that_follows_from_wrong_numbers_is_no_side_effect() -> None:
    named, _ = dynamo(LOST, lambda s: "h a.py:20" in s.get("eager", ()), plain=KEPT, wrong=[difference(0)])
    assert named.component is not None and named.component.kind == "function"


def test_an_object_of_another_type_is_an_output() -> None:
    facts = {**CODE, "calls": [call(0, after={"returned": "tuple_iterator with 2 left"})]}
    plain = {"calls": [call(0, after={"returned": "generator (at line 6)"})]}
    named, _ = dynamo(facts, lambda s: "f a.py:1" in s.get("eager", ()), plain=plain)
    assert named.component is not None
    assert (named.component.kind, named.component.name) == ("output", "returned (generator)")


def test_a_setting_is_named_where_no_code_is() -> None:
    facts = {"frames": [{"key": "f a.py:1", "call": 0}], "recompiles": ["f a.py:1: self.n == 2"]}
    named, _ = dynamo(facts, lambda s: "allow_unspec_int_on_nn_module" in s.get("dynamo", ()))
    assert named.component is not None and named.component.kind == "setting"
    assert any(("f a.py:1", "self.n == 2") in exhibit.rows for exhibit in named.exhibits)


def test_a_setting_that_only_avoids_the_failure_is_no_component() -> None:
    """With one call and one graph nothing was generalised, so what says how to generalise is not at fault."""
    facts = {"frames": [{"key": "f a.py:1", "call": 0}], "calls": [call(0)]}
    named, _ = dynamo(facts, lambda s: "assume_static_by_default" in s.get("dynamo", ()))
    assert named.component is None
    assert "a workaround" in words_of(named.evidence[-1])
    reused = {**facts, "calls": [call(0), call(1)]}
    named, _ = dynamo(reused, lambda s: "assume_static_by_default" in s.get("dynamo", ()))
    assert named.component is not None and named.component.kind == "setting"
    named, _ = dynamo(facts, lambda s: "inline_inbuilt_nn_modules" in s.get("dynamo", ()))
    assert named.component is not None and named.component.name == "inline_inbuilt_nn_modules=False"


CRASH = Outcome(
    status=Status.EXCEPTION,
    exit_code=1,
    raised=Raised(
        type="InternalError",
        message='boom\n\nfrom user code:\n   File "a.py", line 3, in f\n    t.bad()\n'
        '  File "/x/site-packages/torch/nn/m.py", line 8, in g\n    pass\n',
        frames=(
            Frame(file="a.py", line=3, function="f"),
            Frame(file="torch/_dynamo/variables/lists.py", line=5, function="call_method"),
            Frame(file="torch/_dynamo/utils.py", line=9, function="<lambda>"),
        ),
    ),
)


def test_an_exception_is_told_by_torchs_function_and_the_users_line() -> None:
    assert user_line(CRASH) == '"a.py", line 3, in f: t.bad()'
    two = {"h a.py:20", "g a.py:9"}  # either cures, so neither is proven
    named, _ = dynamo(CODE, lambda s: bool(two & set(s.get("eager", ()))), failure=CRASH)
    assert named.component is not None and named.component.name == "call_method"
    assert named.component.confidence is Confidence.LIKELY
    assert "t.bad()" in named.component.detail and "h a.py:20" in named.component.detail


def test_the_function_that_cures_goes_before_the_innermost_frame() -> None:
    named, _ = dynamo(CODE, lambda s: "h a.py:20" in s.get("eager", ()), failure=CRASH)
    part = named.component
    assert part is not None and (part.name, part.confidence) == ("h", Confidence.PROVEN)
    assert part.detail == (
        '"a.py", line 3, in f: t.bad(); raised by call_method (torch/_dynamo/variables/lists.py:5); h a.py:20'
    )


RESUMED = "torch_dynamo_resume_in_f_at_5 a.py:5"


@pytest.mark.parametrize("nested", [True, False])
def test_what_resumes_a_function_is_narrower_than_what_it_resumes(nested: bool) -> None:
    """Left as it is, the function has no rest to be compiled; a rest left as it is leaves the function."""
    keys = ["f a.py:1", RESUMED, "g a.py:9"]
    traced = {
        "f a.py:1": ["g a.py:9"] if nested else [RESUMED, "g a.py:9"],
        RESUMED: ["f a.py:1", "g a.py:9"],
    }

    def facts(names: Sequence[str]) -> dict[str, Any]:
        return {"frames": [{"key": key, "call": 0} for key in names], "inlined": []}

    def cured(switch: Switch) -> bool:
        return bool(set(switch.get("eager", ())) & set(traced))

    runner, lab, at = climb(facts(keys), cured, failure=CRASH)
    answer = lab.answer

    def answered(probe: Probe) -> Outcome | None:
        outcome = answer(probe)
        left = [key for key in front(probe).get("eager", ()) if key in traced]
        if outcome is None or not left:
            return outcome
        return replace(outcome, facts={**outcome.facts, "front": facts(traced[left[0]])})

    lab.answer = answered
    part = localize_component(runner, Stage.DYNAMO, at, ladder=[at]).component
    assert part is not None
    if nested:
        assert (part.kind, part.name, part.confidence) == ("frame", "f", Confidence.PROVEN)
        assert part.detail.endswith(RESUMED)
    else:
        assert (part.name, part.confidence) == ("call_method", Confidence.LIKELY)


def test_a_flaky_script_is_told_by_its_frames_only() -> None:
    named, lab = dynamo(CODE, lambda s: False, failure=CRASH, failures=1)
    assert named.component is not None and named.component.name == "call_method"
    assert lab.asked == []


def test_one_operator_that_cures_alone_is_proven() -> None:
    named, _ = graphs(Stage.AOT_AUTOGRAD, ["sinh", "mul"], lambda s: "0:sinh" in s.get("outside", ()))
    assert named.component is not None and (named.component.kind, named.component.name) == ("op", "sinh")
    assert named.component.confidence is Confidence.PROVEN
    assert named.component.detail == "line of sinh"


def test_operators_that_are_needed_together_are_no_proof() -> None:
    named, _ = graphs(Stage.AOT_AUTOGRAD, ["mul_", "copy"], lambda s: bool(s.get("outside")))
    assert named.component is not None and named.component.confidence is Confidence.LIKELY
    assert named.component.name == "mul_, copy"


def test_a_split_that_cures_by_itself_names_no_operator() -> None:
    named, _ = graphs(Stage.AOT_AUTOGRAD, ["sinh", "mul"], lambda s: "outside" in s)
    assert named.component is None


def test_a_setting_of_the_partitioner_moves_the_blame_there() -> None:
    named, _ = graphs(Stage.AOT_AUTOGRAD, [], lambda s: "activation_memory_budget" in s.get("functorch", ()))
    assert named.component is not None and named.component.kind == "setting"
    assert named.stage is Stage.PARTITIONER


def test_where_nothing_can_be_left_out_the_wrong_value_is_told() -> None:
    named, _ = graphs(Stage.PARTITIONER, [], lambda s: False, wrong=[difference(-1, "leaf_grad")])
    assert named.component is not None
    assert (named.component.kind, named.component.confidence) == ("gradient", Confidence.LIKELY)
    assert any("backward graph" in line for line in sentences(named.evidence))


def test_a_hang_costs_few_questions() -> None:
    hang = Outcome(status=Status.TIMEOUT)
    runner, lab, _ = climb({}, lambda s: False, failure=hang)
    questions = Questions(runner=runner, rung=Rung.AOT)
    assert questions.single_fixes("outside", [f"0:n{n}" for n in range(60)]) == {}
    questions.ask([{"look": True}] * 40)
    assert len(lab.asked) <= MOST_OF_A_HANG


def test_operators_under_one_mode_are_a_block_and_all_of_a_graph_is_no_component() -> None:
    block = {"key": "0:enter", "target": "enter, float, matmul", "line": "with mode:", "operators": 3}
    other = {"key": "0:mul", "target": "mul", "line": "t * 2", "operators": 1}

    def name(*units: dict[str, Any]) -> Localization:
        runner, _, at = climb({"units": units}, lambda s: "0:enter" in s.get("outside", ()))
        return localize_component(runner, Stage.AOT_AUTOGRAD, replace(at, rung=Rung.AOT), ladder=[at])

    named = name(block, other)
    assert named.component is not None and named.component.kind == "block"
    assert name(block).component is None


def test_a_graph_used_again_for_a_call_that_returns_another_kind_of_tensor() -> None:
    facts = stale(t=("Tensor", "Tensor requires_grad"))
    facts["guards"] = []
    facts["calls"][1]["after"] = {"returned": "Tensor"}
    plain = {"calls": [call(0), call(1, after={"returned": "Tensor requires_grad"})]}
    runner, _, _ = climb(facts, lambda s: bool(s.get("guard_on")), plain=plain)
    named = find_guard(runner, Rung.AOT)
    assert named is not None and named.component is not None
    assert named.component.name == "t" and named.passing_run is not None


def test_an_attribute_that_is_baked_in_and_read_by_no_guard_is_named_and_never_proven() -> None:
    """A parameter's requires_grad is in no graph: each call captures the same one."""
    path = "self.weight.requires_grad"
    facts = stale(**{path: ("True", "False"), "x": ("float32 [4]", "float32 [4]")})
    facts["calls"][0]["before"]["self.weight.grad"] = "None"
    runner, lab, _ = climb(facts, lambda s: path in s.get("guard_on", ()), plain=FINE, wrong=[difference(1)])
    named = baked_attribute.localize_attribute(runner, Rung.AOT)
    assert named is not None and named.component is not None and named.passing_run is None
    assert (named.component.kind, named.component.name) == ("guard", path)
    assert named.component.confidence is Confidence.LIKELY
    assert "no guard refused the change" in named.component.detail
    asked = [front(probe)["guard_on"] for probe in lab.asked if front(probe).get("guard_on")]
    assert [path] in asked and all("x" not in paths for paths in asked)


def test_where_no_attribute_changed_none_is_named() -> None:
    facts = stale(x=("float32 [4]", "float32 [4]"))
    runner, _, _ = climb(facts, lambda s: True, plain=FINE, wrong=[difference(1)])
    assert baked_attribute.localize_attribute(runner, Rung.AOT) is None

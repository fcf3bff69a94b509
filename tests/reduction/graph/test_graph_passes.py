"""Reducing programs: the result fails, nothing more can go, and the number of workers does not matter."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_lab.reduction.graph.emit import Check, emit
from accel_lab.reduction.graph.load import load_captures, program_of, programs_of
from accel_lab.reduction.graph.passes import cut_prefix, cut_suffix, drop_calls
from accel_lab.reduction.graph.program import Program
from accel_lab.reduction.graph.reducer import reduce_graph
from accel_lab.reduction.graph.shrink import shrink_sizes, simplify_values
from accel_lab.reduction.graph.state import State
from accel_lab.reduction.problem import Candidate, OutOfBudget

from .test_graph_program import node, one, output, ref, write_capture


class FakeProblem:
    """Answers by a predicate on the source; every candidate must be a program that defines what it uses."""

    def __init__(self, fails: Callable[[str], bool], workers: int = 1, budget: int = 10_000) -> None:
        self._fails = fails
        self._workers = workers
        self._budget = budget
        self.asked: list[str] = []
        self.answered: dict[str, bool] = {}
        self.best: list[str] = []

    @property
    def workers(self) -> int:
        return self._workers

    def submit(self, candidate: Candidate) -> Future[bool]:
        if len(self.asked) >= self._budget:
            raise OutOfBudget
        check_closed(candidate.source)
        self.asked.append(candidate.source)
        answer: Future[bool] = Future()
        answer.set_result(self._fails(candidate.source))
        self.answered[candidate.source] = answer.result()
        return answer

    def found(self, candidate: Candidate, note: str) -> None:
        assert self.answered[candidate.source], note
        self.best.append(candidate.source)


def check_closed(source: str) -> None:
    """Every name in ``f`` is defined before it is used."""
    for function in ast.parse(source).body:
        if not isinstance(function, ast.FunctionDef) or function.name == "load":
            continue
        known = {argument.arg for argument in function.args.args} | {"torch", "F", "load", "results", "run"}
        for line in function.body:
            loaded = {
                name.id
                for name in ast.walk(line)
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
            }
            assert loaded <= known, (loaded - known, source)
            known |= {name.id for name in ast.walk(line) if isinstance(name, ast.Name)}


def calls_of(source: str) -> list[str]:
    """The operators that ``f`` calls, in order."""
    body = source[source.index("def f(") : source.index("def run(")]
    return re.findall(r"torch\.(op\d+)\(", body)


def chain(folder: Path, operands: list[tuple[int, ...]], **changes: Any) -> Program:
    """A program whose statement ``i`` is ``torch.op<i>`` of earlier values; 0 is the input."""
    name = lambda i: f"v{i}" if i else "l_x0_"  # noqa: E731
    nodes = [
        node(f"v{i}", f"torch.op{i}", *(ref(name(j)) for j in used)) for i, used in enumerate(operands, 1)
    ]
    values = tuple(f"v{i}" for i in range(1, len(operands) + 1))
    return one(folder, [*nodes, output(name(len(operands)))], values=values, **changes)


def straight(folder: Path, length: int) -> Program:
    return chain(folder, [(i,) for i in range(length)])


def needs(*names: str) -> Callable[[str], bool]:
    return lambda source: set(names) <= set(calls_of(source))


CHECK = Check()


@pytest.mark.parametrize("at", [1, 2, 77, 150, 299, 300])
def test_a_single_bad_node_among_hundreds_is_found_in_few_questions(tmp_path: Path, at: int) -> None:
    problem = FakeProblem(needs(f"op{at}"))
    state = State(problem, straight(tmp_path, 300), CHECK)
    cut_suffix(state)
    cut_prefix(state)
    assert calls_of(emit(state.program, CHECK).source) == [f"op{at}"]
    assert len(problem.asked) <= 16


def test_two_nodes_far_apart_are_both_kept_and_nothing_else(tmp_path: Path) -> None:
    problem = FakeProblem(needs("op40", "op160"))
    result = reduce_graph(problem, straight(tmp_path, 200), CHECK)
    assert calls_of(emit(result, CHECK).source) == ["op40", "op160"]
    assert len(problem.asked) <= 120


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_result_fails_is_one_minimal_and_does_not_depend_on_workers(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 14))
    operands = [tuple(data.draw(st.lists(st.integers(0, i), min_size=1, max_size=2))) for i in range(length)]
    with tempfile.TemporaryDirectory() as folder:
        program = chain(Path(folder), operands)
        used = calls_of(emit(program, CHECK).source)
        bad = data.draw(st.lists(st.sampled_from(used), min_size=1, max_size=3, unique=True))
        fails = needs(*bad)
        results = []
        for workers in (1, 2, 3):
            problem = FakeProblem(fails, workers)
            result = emit(reduce_graph(problem, program, CHECK), CHECK).source
            results.append(result)
            assert fails(result)
            if workers == 1:
                assert len(problem.asked) == len(set(problem.asked))
        assert len(set(results)) == 1
        assert sorted(calls_of(results[0])) == sorted(bad)


def test_a_node_that_only_joins_two_needed_ones_goes(tmp_path: Path) -> None:
    problem = FakeProblem(needs("op1", "op2", "op4"))
    result = reduce_graph(problem, chain(tmp_path, [(0,), (0,), (1, 2), (0, 3)]), CHECK)
    assert sorted(calls_of(emit(result, CHECK).source)) == ["op1", "op2", "op4"]


def test_the_best_so_far_is_the_result_when_the_time_is_over(tmp_path: Path) -> None:
    program = straight(tmp_path, 64)
    for budget in (0, 1, 5, 20):
        problem = FakeProblem(needs("op20", "op40"), budget=budget)
        result = emit(reduce_graph(problem, program, CHECK), CHECK).source
        assert {"op20", "op40"} <= set(calls_of(result))
        if problem.best:
            assert result == problem.best[-1]


def test_only_the_calls_that_matter_are_kept(tmp_path: Path) -> None:
    for number, target in enumerate(("torch.op1", "torch.op2", "torch.op3")):
        write_capture(tmp_path, [node("y", target, ref("l_x0_")), output("y")], number=number)
    program = programs_of(load_captures(tmp_path))[-1]
    assert len(program.calls) == 3
    problem = FakeProblem(lambda source: "op1(" in source and "op3(" in source)
    state = State(problem, program, CHECK)
    drop_calls(state)
    assert [f.body[0].target for f in state.program.functions] == ["torch.op1", "torch.op3"]


def test_sizes_shrink_to_the_smallest_that_fails(tmp_path: Path) -> None:
    program = chain(tmp_path, [(0,)])
    problem = FakeProblem(lambda source: bool(re.search(r"torch.ones\([34]\)", source)))
    state = State(FakeProblem(lambda source: "torch.ones(" in source), program, CHECK)
    simplify_values(state)
    state = State(problem, state.program, CHECK)
    shrink_sizes(state)
    assert "torch.ones(3)" in emit(state.program, CHECK).source


def test_values_that_the_failure_needs_are_kept_as_a_literal(tmp_path: Path) -> None:
    program = chain(tmp_path, [(0,)])
    problem = FakeProblem(lambda source: "load(" in source or "-3.0" in source)
    text = emit(reduce_graph(problem, program, CHECK), CHECK).source
    assert "x0 = torch.tensor([1.0, 2.5, -3.0, 0.1])" in text
    assert "load(" not in text


def test_settings_and_arguments_that_do_not_matter_go(tmp_path: Path) -> None:
    nodes = [node("y", "torch.op1", ref("l_x0_"), 7, 3.25, dim=5, keep=True), output("y")]
    program = one(
        tmp_path,
        nodes,
        compile={"backend": "inductor", "options": {"a": "1"}, "fullgraph": True, "dynamic": True},
    )
    problem = FakeProblem(lambda source: "op1(" in source and "keep=True" in source)
    text = emit(reduce_graph(problem, program, CHECK), CHECK).source
    assert "torch.compile(f)" in text
    assert "keep=True" in text
    assert "dim=" not in text
    assert "3.25" not in text


def test_it_ends_where_two_settings_are_equally_good(tmp_path: Path) -> None:
    problem = FakeProblem(needs("op1"), budget=500)
    program = chain(tmp_path, [(0,)])
    reduce_graph(problem, program, CHECK)
    assert len(problem.asked) < 100
    assert len(problem.best) == len(set(problem.best))


def test_a_call_by_itself_is_the_first_program(tmp_path: Path) -> None:
    program = straight(tmp_path, 3)
    assert program_of(load_captures(tmp_path)[0]) == program
    assert replace(program) == program

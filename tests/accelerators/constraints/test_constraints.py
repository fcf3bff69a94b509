"""Constraints on Dynamo graphs and ATen graphs: what they find, where, and what they leave alone."""

from __future__ import annotations

import operator
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from accel_lab.accelerators.constraints.catalogue import (  # noqa: E402
    Constraint,
    ConstraintError,
    Finding,
    GraphView,
    Violation,
    check_graph,
)
from accel_lab.accelerators.constraints.liveness import peak_memory  # noqa: E402
from accel_lab.accelerators.constraints.operators import canonical, canonical_of, parse_operator  # noqa: E402
from accel_lab.accelerators.constraints.reduced_graph import reduced  # noqa: E402
from accel_lab.accelerators.constraints.selection import _MAKERS, NAMES  # noqa: E402
from accel_lab.accelerators.constraints.watch import Watch  # noqa: E402
from accel_lab.accelerators.settings import SettingError  # noqa: E402
from accel_lab.mock.adapter import MockAdapter  # noqa: E402
from accel_lab.mock.backend import aot_mock_backend  # noqa: E402
from accel_lab.mock.constraints import choose  # noqa: E402
from accel_lab.mock.runtime.run_statistics import reset  # noqa: E402
from accel_lab.mock.settings import read_settings  # noqa: E402

pytestmark = pytest.mark.torch


def dynamo_graph(function: Any, *inputs: Any) -> Any:
    """A graph with torch functions and methods, and values under Dynamo's key."""
    graph = torch.fx.symbolic_trace(function)

    class Values(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            if n.op != "output":
                n.meta["example_value"] = value
            return value

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        Values(graph).run(*(mode.from_tensor(value) for value in inputs))
    return graph


def aten_graph(function: Any, *inputs: Any, mode: str = "fake") -> Any:
    """A graph with ATen operators, and values under AOTAutograd's key."""
    return make_fx(function, tracing_mode=mode)(*inputs)


def violations(graph: Any, level: str = "aten", direction: str = "", **given: Any) -> list[Violation]:
    """What is found in a graph by constraints that are set up by name."""
    choice = {key: given.pop(key) for key in ("constraints", "dtypes", "denied", "errors") if key in given}
    settings = read_settings({}, {}, given)
    view = GraphView(graph_module=graph, level=level, direction=direction)
    return check_graph(view, choose(settings, given=choice, environment={}).constraints)


def ops(found: list[Violation]) -> set[str]:
    return {violation.op for violation in found}


# ---- names of operators


@pytest.mark.parametrize(
    ("spec", "entry"),
    [
        (torch.relu, "relu"),
        (torch.nn.functional.relu, "relu"),
        (torch.Tensor.relu_, "relu"),
        (torch.ops.aten.relu_.default, "relu"),
        ("torch.nn.functional.relu", "relu"),
        ("aten.relu.default", "relu"),
        ("aten::relu_", "relu"),
        (torch.nn.ReLU(), "relu"),
        (torch.nn.Conv2d(1, 1, 1), "convolution"),
        (torch.nn.functional.conv_transpose2d, "convolution"),
        (torch.ops.aten.convolution, "convolution"),
        (torch.ops.aten._softmax.default, "softmax"),
        (torch.nn.LayerNorm(3), "layer_norm"),
        (operator.iadd, "add"),
        (operator.truediv, "div"),
        (operator.matmul, "matmul"),
        (torch.linalg.lu_factor, "linalg_lu_factor"),
        ("torch.linalg.lu_factor", "linalg_lu_factor"),
        (torch.Tensor.__mul__, "mul"),
        ("torch.kthvalue", "kthvalue"),
    ],
)
def test_all_spellings_of_an_operator_are_one_entry(spec: Any, entry: str) -> None:
    assert parse_operator(spec) == entry


def test_names_that_mean_nothing_are_refused_with_what_is_near() -> None:
    with pytest.raises(ValueError, match=r"there is .*softmax"):
        parse_operator("softmaxx")
    with pytest.raises(ValueError, match="an operator is a name"):
        parse_operator(3)
    assert canonical_of(object()) == ""
    assert canonical("index") == "index"


def test_a_denied_operator_is_met_on_both_levels() -> None:
    def region(x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w).relu_()

    x, w = torch.randn(1, 1, 4, 4), torch.randn(1, 1, 2, 2)
    for denied in ("relu", "aten.relu_.default", torch.nn.functional.relu):
        for level, graph in (("dynamo", dynamo_graph(region, x, w)), ("aten", aten_graph(region, x, w))):
            found = violations(graph, level, constraints=["unsupported"], denied=[denied])
            assert [v.message for v in found if "deny-list" in v.message] == ["relu is on the deny-list"], (
                level
            )
    both = violations(
        dynamo_graph(region, x, w), "dynamo", constraints=["unsupported"], denied=["aten.convolution"]
    )
    assert ops(both) == {"convolution"}


def test_a_denied_operator_is_met_after_it_was_decomposed() -> None:
    graph = aten_graph(lambda x: x.exp() + 1, torch.randn(3))
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.meta["original_aten"] = torch.ops.aten.softplus.default
    assert ops(violations(graph, constraints=["unsupported"], denied=["softplus"])) == {"softplus"}


# ---- unknown nodes


def test_unknown_nodes_are_said_to_be_so_and_numbers_are_not() -> None:
    def mine(x: Any) -> Any:
        return x + 1

    mine.__module__ = "somewhere"
    graph = dynamo_graph(lambda x: x.view(x.shape[0], -1), torch.randn(3, 4))
    assert violations(graph, "dynamo", constraints=["unsupported"]) == []
    call = next(node for node in graph.graph.nodes if node.op == "call_method")
    with graph.graph.inserting_after(call):
        graph.graph.call_function(mine, (call,)).meta["example_value"] = torch.randn(3, 4)
        graph.graph.call_method("to_my_chip", (call,)).meta["example_value"] = torch.randn(3, 4)
    said = {v.message for v in violations(graph, "dynamo", constraints=["unsupported"])}
    assert said == {
        "mine is not a function of torch, and the device does not support it",
        "the method to_my_chip is unknown",
    }


def test_aten_operators_that_the_device_lacks_are_reported() -> None:
    graph = aten_graph(lambda x: torch.linalg.lu_factor(x)[0] + torch.rand_like(x) @ x, torch.randn(3, 3))
    found = {v.op: v.message for v in violations(graph, constraints=["unsupported"])}
    assert found.pop("rand_like") == "random numbers are drawn on the host"
    assert set(found) == {"linalg_lu_factor"}
    call = next(node for node in graph.graph.nodes if node.target is torch.ops.aten.mm.default)
    del call.meta["val"]
    assert "the node has no traced value" in {
        v.message for v in violations(graph, constraints=["unsupported"])
    }


def test_the_graphs_of_higher_order_operators_are_looked_into() -> None:
    def region(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda t: t.double(), lambda t: t.double() + 1, (x,))

    seen: list[list[Violation]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.append(violations(graph, "dynamo"))
        return graph

    torch._dynamo.reset()
    torch.compile(region, backend=backend)(torch.randn(3))
    inside = [v for v in seen[0] if "." in v.node]
    assert {v.constraint for v in inside} == {"dtype"}
    assert {v.node.partition(".")[0] for v in inside} == {"cond_true_0", "cond_false_0"}


# ---- dtype, layout, alignment, memory


def test_dtypes_by_name_and_by_object_and_tuple_outputs() -> None:
    def region(x: Any) -> Any:
        values, where = torch.topk(x.double(), 2)
        return values, where

    for level, graph in (
        ("dynamo", dynamo_graph(region, torch.randn(3, 4))),
        ("aten", aten_graph(region, torch.randn(3, 4))),
    ):
        found = violations(graph, level, constraints=["dtype"])
        assert ops(found) == {"to", "topk"}, level
        assert {v.change for v in found} == {"use float32 or bfloat16 or float16"}
        for dtypes in (["float16"], [torch.float16], ["fp16"]):
            narrow = violations(graph, level, constraints=["dtype"], dtypes=dtypes)
            assert ops(narrow) == {"input", "to", "topk"}, (level, dtypes)
    complex_graph = aten_graph(lambda x: x * 1j, torch.randn(2))
    assert violations(complex_graph, constraints=["dtype"])[0].change.startswith("compute it outside")


def test_layout_of_inputs_and_of_what_moves_the_sticks() -> None:
    def region(x: Any, y: Any) -> Any:
        return x + 1, y.t() * 2

    found = violations(aten_graph(region, torch.randn(3, 4).t(), torch.randn(3, 4)), constraints=["layout"])
    assert {v.severity for v in found} == {"warning"}
    assert any("strides [1, 4] is not contiguous" in v.message for v in found)
    assert "t" in ops(found)
    column = violations(aten_graph(lambda x: x + 1, torch.randn(64, 1)), constraints=["layout"])
    assert "1 of 32 lanes is used" in column[0].message
    fine = torch.randn(3, 1, 4), torch.randn(0, 3), torch.randn(()), torch.randn(1, 3).t().contiguous().t()
    for value in fine:
        assert violations(aten_graph(lambda x: x + 1, value), constraints=["layout"]) == []
    sparse = dynamo_graph(lambda x: x, torch.randn(2))
    next(iter(sparse.graph.nodes)).meta["example_value"] = torch.eye(2).to_sparse()
    assert [v.severity for v in violations(sparse, "dynamo", constraints=["layout"])] == ["error"]


def test_alignment_is_in_elements_of_the_last_dimension() -> None:
    graph = aten_graph(lambda x: (x[:, :6] * 2).sum(), torch.randn(3, 8))
    assert violations(graph, constraints=["alignment"]) == []
    found = violations(graph, constraints=["alignment"], alignment=4)
    assert {v.change for v in found} == {"pad it to 8"}
    assert "input" not in ops(found)
    assert "sum" not in ops(found)


def test_alignment_can_be_asked_of_every_dimension() -> None:
    graph = aten_graph(lambda x: x + 1, torch.randn(3, 6, 8))
    assert violations(graph, constraints=["alignment"], alignment=4) == []
    found = violations(graph, constraints=["alignment"], alignment=4, aligned_dimensions="all")
    assert {v.message for v in found} == {"dimension 0, 1 of [3, 6, 8] is not a multiple of 4"}
    assert {v.change for v in found} == {"pad it to 4, 8"}


def test_layout_can_be_an_error() -> None:
    graph = aten_graph(lambda x: x + 1, torch.randn(3, 4).t())
    assert {v.severity for v in violations(graph, constraints=["layout"])} == {"warning"}
    assert {v.severity for v in violations(graph, constraints=["layout"], errors=["layout"])} == {"error"}
    with pytest.raises(SettingError, match=r"errors: there is no constraint 'layuot'.*did you mean layout"):
        violations(graph, errors=["layuot"])


def test_memory_of_a_tensor_counts_whole_sticks() -> None:
    graph = aten_graph(lambda x: x + 1, torch.randn(8, 1))
    assert violations(graph, constraints=["memory"], max_memory=8 * 128) == []
    found = violations(graph, constraints=["memory"], max_memory=8 * 128 - 1)
    assert "takes 1.0 KiB" in found[0].message


def test_sizes_that_are_symbols_are_taken_by_their_example() -> None:
    graph = aten_graph(lambda x: x.double() + 1, torch.randn(4, 7), mode="symbolic")
    assert any(isinstance(n.meta["val"].shape[0], torch.SymInt) for n in graph.graph.nodes if "val" in n.meta)
    found = violations(graph, alignment=2, max_memory=128)
    assert {"dtype", "alignment", "memory", "peak_memory"} <= {v.constraint for v in found}


def test_a_size_that_only_the_data_knows_breaks_nothing() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    with FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True)) as mode:
        x = mode.from_tensor(torch.randn(4))
        graph = make_fx(lambda x: x.nonzero().double())(x)
    found = violations(graph, alignment=4, max_memory=4096)
    assert {v.constraint for v in found} == {"dtype", "unsupported"}


# ---- memory over time


def test_peak_memory_follows_the_lives_of_tensors() -> None:
    stick = torch.randn(32)

    def chain(x: Any) -> Any:
        return (((x + 1) * 2) - 3) / 4

    def kept(x: Any) -> Any:
        a, b, c = x + 1, x + 2, x + 3
        return a * b * c

    peak = peak_memory(aten_graph(chain, stick))
    assert peak is not None
    assert peak.bytes == 3 * 128  # the input, an operand, its result
    peak = peak_memory(aten_graph(kept, stick))
    assert peak is not None
    assert peak.bytes == 5 * 128  # the input, a, b, c, a * b
    views = peak_memory(aten_graph(lambda x: x.view(4, 8).t().expand(8, 4), stick))
    assert views is not None
    assert views.bytes == 128  # views take nothing of their own
    assert peak_memory(torch.fx.GraphModule({}, torch.fx.Graph())) is None


def test_peak_memory_counts_results_to_the_end_and_says_what_is_largest() -> None:
    graph = aten_graph(lambda x: (x + 1, x + 2, [x + 3]), torch.randn(2, 32))
    found = violations(graph, constraints=["peak_memory"], max_memory=4 * 256 - 1)
    assert len(found) == 1
    assert "1.0 KiB are on the device at once" in found[0].message
    assert violations(graph, constraints=["peak_memory"], max_memory=4 * 256) == []
    assert violations(graph, "dynamo", constraints=["peak_memory"], max_memory=128) == []


# ---- scratchpad and span


def test_scratchpad_and_span_are_warnings_with_numbers() -> None:
    graph = aten_graph(lambda x: x.sum(0), torch.randn(64, 32))
    found = violations(graph, constraints=["scratchpad"], scratchpad_bytes=4096)
    assert "one column of sticks takes 8.0 KiB, a scratchpad 4.0 KiB" in found[0].message
    assert violations(graph, constraints=["scratchpad"], scratchpad_bytes=8192) == []
    product = aten_graph(lambda x, w: x @ w, torch.randn(32, 64), torch.randn(64, 32))
    found = violations(product, constraints=["span"], span=4096)
    assert "one core addresses 8.0 KiB of [64, 32]" in found[0].message or "[32, 64]" in found[0].message
    shared = aten_graph(lambda x: x + 1, torch.randn(32, 64))
    assert violations(shared, constraints=["span"], span=512, cores=32) == []
    assert len(violations(shared, constraints=["span"], span=4096, cores=1)) == 1


# ---- choosing


@pytest.mark.parametrize(
    ("given", "environment", "table", "says"),
    [
        (
            {"constraints": ["nope"]},
            {},
            {},
            "constraints: there is no constraint 'nope'; there are dtype, layout",
        ),
        ({}, {"MOCK_CONSTRAINTS": "dtype,nope"}, {}, "MOCK_CONSTRAINTS: there is no constraint 'nope'"),
        ({}, {}, {"constraints": 3}, r"\[tool.accel-lab.mock\] constraints is a list, not 3"),
        ({"dtypes": ["float17"]}, {}, {}, "dtypes: a dtype is a torch.dtype or its name .*not 'float17'"),
        ({"dtypes": [torch.float64]}, {}, {}, "the device has no float64; it has bfloat16"),
        ({}, {"MOCK_DTYPES": "float64"}, {}, "MOCK_DTYPES: the device has no float64"),
        ({}, {}, {"denied": ["reluu"]}, r"\[tool.accel-lab.mock\] denied: torch has no operator 'reluu'"),
        ({"constraints": [object()]}, {}, {}, "there is no constraint <object"),
    ],
)
def test_a_wrong_value_is_one_error_that_says_what_is_allowed(
    given: Any, environment: Any, table: Any, says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        choose(read_settings({}, {}), given=given, environment=environment, table=table)


def test_what_is_given_goes_before_the_environment_and_that_before_the_table() -> None:
    settings = read_settings({}, {})
    table, environment = {"constraints": ["layout"]}, {"MOCK_CONSTRAINTS": "span, dtype"}

    def names(**words: Any) -> list[str]:
        return [constraint.name for constraint in choose(settings, **words).constraints]

    assert names(environment={}) == list(NAMES)
    assert names(environment={}, table=table) == ["layout"]
    assert names(environment=environment, table=table) == ["span", "dtype"]
    assert names(environment=environment, table=table, given={"constraints": ["memory"]}) == ["memory"]
    again = choose(settings, given={"denied": ["aten.relu"], "dtypes": ["float32"]}, environment={})
    assert again.environment is not None
    assert choose(settings, environment=again.environment).constraints == again.constraints


# ---- the backend


class NoAddition(Constraint):
    """A constraint of a user's own."""

    name = "no_addition"

    def findings(self, node: Any, graph_module: Any, view: GraphView) -> Any:
        if node.target is torch.ops.aten.add.Tensor:
            yield Finding(node=node, message="adds", change="do not add")


def test_warning_mode_notes_each_violation_once_with_its_line_and_falls_back() -> None:
    def region(x: Any) -> Any:
        return (x.double() * 2).float().softmax(-1)

    x = torch.randn(2, 5, requires_grad=True)
    torch._dynamo.reset()
    reset()
    result = torch.compile(region, backend=aot_mock_backend(constraints=["dtype"]))(x)
    result.sum().backward()
    torch.testing.assert_close(result, region(x))
    found = reset().violations
    assert {v["constraint"] for v in found} == {"dtype"}
    line = region.__code__.co_firstlineno + 1
    assert {v["source"] for v in found} == {f"{__file__}:{line}"}
    assert {v["code"] for v in found} == {"return (x.double() * 2).float().softmax(-1)"}
    assert len({(v["constraint"], v["op"], v["source"]) for v in found}) == len(found)


def test_strict_mode_lists_all_and_its_repro_violates_the_same(tmp_path: Path) -> None:
    def region(x: Any, n: int) -> Any:
        return torch.linalg.lu_factor(x.t() * n)[0] + torch.special.bessel_j0(x)

    backend = aot_mock_backend(strict=True, artifacts=str(tmp_path), constraints=["unsupported", NAMES[0]])
    torch._dynamo.reset()
    with pytest.raises(Exception, match="strict mode") as raised:
        torch.compile(region, backend=backend)(torch.randn(4, 3, 3)[1].t(), 3)
    error: Any = getattr(raised.value, "inner_exception", raised.value)
    assert isinstance(error, ConstraintError)
    assert ops(list(error.violations)) >= {"linalg_lu_factor", "special_bessel_j0"}
    assert f"{__file__}:{region.__code__.co_firstlineno + 1}" in str(error)
    script = Path(error.repro.removeprefix("repro: "))
    assert script.parent == tmp_path
    assert "tensor((3, 3), (1, 3), torch.float32" in script.read_text()
    package = str(Path(__file__).resolve().parents[3] / "bisect")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": package, "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "violates unsupported: linalg_lu_factor" in done.stdout


def test_a_repro_is_reduced_to_the_operator_that_violates(tmp_path: Path) -> None:
    def region(x: Any, w: Any) -> Any:
        left, right = torch.relu(x @ w).chunk(2, 1)
        return (torch.exp(right) + left.sin()).cos() * 3

    seen: dict[str, str] = {}
    names = ["unsupported", "dtype"]
    adapter = MockAdapter({"constraints": names, "dtypes": ["float32"], "denied": ["sin", "cos"]})

    def backend(graph: Any, inputs: Any) -> Any:
        watch = Watch(adapter.constraints(), graph, inputs, "graph0", target=adapter.repro_target())
        watch.dynamo()
        for violation in watch.violations.values():
            said = watch.reduced_repro(violation, str(tmp_path))
            assert said is not None and said[1] < said[2]
            seen[violation.op] = Path(said[0].removeprefix("repro: ")).read_text()
        return graph

    torch._dynamo.reset()
    torch.compile(region, backend=backend)(torch.ones(4, 6), torch.ones(6, 8))
    assert set(seen) == {"sin", "cos"}
    assert "tensor((4, 4), (8, 1), torch.float32)" in seen["sin"]  # what chunk made of (4, 8), as it lay
    assert ".sin()" in seen["sin"] and ".cos()" not in seen["sin"] and "matmul" not in seen["sin"]
    assert "Reduced to 1 of the graph's" in seen["sin"]


def test_an_operator_of_atens_graph_is_found_by_its_stack_trace() -> None:
    graph = dynamo_graph(lambda x: (x.double() + 1).float() * 2, torch.ones(3, 4))
    nodes = {node.name: node for node in graph.graph.nodes}
    for number, node in enumerate(nodes.values()):
        node.meta["stack_trace"] = f'File "/x.py", line {number}, in f'
    breach = violation_of(level="aten", node="add_1")
    part = reduced(graph, breach, nodes["add"].meta["stack_trace"])
    assert part is not None and (part.operators, part.of) == (1, 4)
    assert [value.dtype for value in part.inputs] == [torch.float64]
    (result,) = part.graph_module(torch.ones(2, dtype=torch.float64))
    assert result.tolist() == [2.0, 2.0]
    assert reduced(graph, breach, "") is None  # nothing says which operator it is
    first = reduced(graph, violation_of(level="dynamo", node="x"))  # an input is what reads it
    assert first is not None and "double" in first.graph_module.code


def violation_of(**changes: Any) -> Violation:
    words = dict.fromkeys(("severity", "direction", "graph", "target", "message", "change"), "")
    return Violation(**{**words, "constraint": "dtype", "op": "add", **changes})


def test_a_constraint_of_the_users_own_is_kept_and_has_no_repro() -> None:
    torch._dynamo.reset()
    backend = aot_mock_backend(strict=True, constraints=[NoAddition()])
    assert torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2)).tolist() == [2.0, 2.0]
    torch._dynamo.reset()
    with pytest.raises(Exception, match="no_addition: add: adds") as raised:
        torch.compile(lambda x: x + 2, backend=backend)(torch.ones(2))
    assert "no repro could be made: a constraint passed as a Python object" in str(raised.value)


def test_what_only_a_lowering_refuses_is_found_by_lowering() -> None:
    def region(x: Any) -> Any:
        return x.double() + torch.cumsum(x, 0)[0] * 2

    x = torch.randn(3, 4)
    graph = aten_graph(region, x)
    seen: list[Violation] = []
    adapter = MockAdapter()
    watch = Watch(adapter.constraints(), graph, [x], "graph0", on_violation=seen.append)
    watch.aten(graph, "inference")
    before = {violation.key for violation in seen}
    assert {violation.constraint for violation in seen} == {"dtype"}
    watch.lowering(graph, "inference", adapter.refusals(graph, [x]))
    assert {violation.key for violation in seen} == before  # float64 is said once, as a dtype
    watch.lowering(graph, "inference", {"mul": "odd"})
    (new,) = [violation for violation in seen if violation.key not in before]
    assert (new.constraint, new.op, new.message) == ("unsupported", "mul", "odd")


def test_each_name_makes_the_constraint_of_that_name() -> None:
    assert tuple(_MAKERS) == NAMES
    assert [constraint.name for constraint in choose(read_settings({}, {}), environment={}).constraints] == [
        *NAMES
    ]

"""Simulator and reference back end agree, and both agree with torch, on kernels of every unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accel_lab.mock.device import FORMATS  # noqa: E402
from accel_lab.mock.ir.layout import Layout, row_major  # noqa: E402
from accel_lab.mock.reference.units import MEANINGS  # noqa: E402
from accel_lab.mock.runtime.memory import extreme  # noqa: E402
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Statement  # noqa: E402
from accel_lab.mock.spec.vocabulary import ARITY, LAYOUT_OPS, REDUCTIONS  # noqa: E402
from mock_specs import (  # noqa: E402
    BACK_ENDS,
    EXTENTS,
    Bench,
    close,
    device_space,
    divide,
    layout_kernel,
    pointwise,
    scratch,
    tile_bytes,
    values_of,
    walk,
)

pytestmark = pytest.mark.torch
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
FLOATS = ("fp32", "fp16", "bf16")
SIMPLE = {"exp": torch.exp, "neg": torch.neg, "sigmoid": torch.sigmoid, "abs": torch.abs, "tanh": torch.tanh}

sizes = st.lists(st.sampled_from(EXTENTS), min_size=0, max_size=3).filter(
    lambda size: torch.Size(size).numel() < 40_000
)


@st.composite
def layouts(draw: Any, formats: tuple[str, ...] = tuple(FORMATS)) -> Layout:
    """A layout of any size, order and format."""
    size = draw(sizes)
    order = draw(st.permutations(range(len(size))))
    return Layout(size=tuple(size), order=tuple(order), format=draw(st.sampled_from(formats)))


def drawn_division(draw: Any, space: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return divide(space, 32, lambda choices: draw(st.sampled_from(choices)))


@QUICK
@given(st.data())
def test_a_fused_chain_in_scratchpads(data: Any) -> None:
    layout = data.draw(layouts(FLOATS))
    one, two = (data.draw(st.sampled_from(sorted(SIMPLE))) for _ in range(2))
    narrow = [n if data.draw(st.booleans()) else 1 for n in layout.size]
    other = Layout(size=tuple(narrow), order=layout.order, format=layout.format)
    space = drawn_division(data.draw, device_space(layout))
    if tile_bytes(space, layout.format) * 2 > 64 * 1024:
        return
    bench = Bench()
    x = bench.put("x", "input", layout, strides=layout.device_strides, seed=1)
    y = bench.put("y", "input", other, strides=walk(other, layout), seed=2)
    out = bench.put("out", "output", layout, strides=layout.device_strides)
    first = scratch("t0", space, layout, 0)
    second = scratch("t1", space, layout, tile_bytes(space, layout.format))
    spec = pointwise(
        bench,
        space,
        [x, y, first, second, out],
        [
            Statement(op=one, inputs=("x",), output="t0"),
            Statement(op="mul", inputs=("t0", "y"), output="t1"),
            Statement(op=two, inputs=("t1",), output="out"),
        ],
    )
    expected = SIMPLE[two](SIMPLE[one](bench.values["x"]) * bench.values["y"])
    close(bench.both(spec)["out"], expected)


BITWISE = tuple(op for op in ARITY if op.startswith("bitwise"))
PLAIN_UNARY = [
    op for op, arity in ARITY.items() if arity == 1 and op not in ("cast", "mask_tail", "clamp", *BITWISE)
]
PLAIN_BINARY = [op for op, arity in ARITY.items() if arity == 2 and op not in BITWISE]
STATEMENTS: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((op, ["x"], {}) for op in PLAIN_UNARY),
    *((op, ["x", "y"], {}) for op in PLAIN_BINARY),
    *((op, [0.75, "y"], {}) for op in PLAIN_BINARY),
    *((op, ["x", 0.75], {}) for op in PLAIN_BINARY),
    ("clamp", ["x"], {"min": "-inf", "max": 0.5}),
    ("clamp", ["x"], {"min": 0}),
    ("cast", ["x"], {"to": "bf16"}),
    ("copy", [0.5], {}),
    ("copy", ["-inf"], {}),
    ("where", ["c", "x", "y"], {}),
    ("where", ["c", "x", "-inf"], {}),
    ("where", ["c", 1.0, 0.0], {}),
    ("mask_tail", ["x"], {"dim": 0, "valid": 70, "value": "-inf"}),
    ("index", [], {"dim": 0}),
    ("index", [], {"dim": 1}),
]
INTEGER_STATEMENTS: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((op, ["x"] if ARITY[op] == 1 else ["x", "y"], {}) for op in BITWISE),
    *((op, ["x", "y"], {}) for op in ("add", "sub", "mul", "div", "eq", "lt", "maximum", "logical_and")),
    ("where", ["c", "x", -3], {}),
    ("neg", ["x"], {}),
    ("sigmoid", ["x"], {}),
    ("add", ["x", 0.75], {}),
]


def check_statement(op: str, inputs: list[Any], attributes: dict[str, Any], formats: tuple[str, str]) -> None:
    """One statement from one format to another in both back ends, after its condition."""
    read, written = (row_major((3, 70), name) for name in formats)
    bench = Bench()
    space = device_space(written)
    for seed, name in enumerate(("x", "y")):
        bench.put(name, "input", read, strides=read.device_strides, seed=seed)
    bench.put("out", "output", written, strides=written.device_strides)
    operands, body = [*bench.operands], []
    if "c" in inputs:
        operands.append(scratch("c", space, row_major((3, 128), "bool"), 0))
        body.append(Statement(op="gt", inputs=("x", "y"), output="c"))
    body.append(Statement(op=op, inputs=tuple(inputs), output="out", attributes=attributes))
    bench.both(pointwise(bench, space, operands, body))


@pytest.mark.parametrize("format_name", FLOATS)
@pytest.mark.parametrize(("op", "inputs", "attributes"), STATEMENTS, ids=str)
def test_every_statement(op: str, inputs: list[Any], attributes: dict[str, Any], format_name: str) -> None:
    check_statement(op, inputs, attributes, (format_name, format_name))


@pytest.mark.parametrize("formats", [("int32", "int32"), ("int32", "fp32"), ("int64", "int64")])
@pytest.mark.parametrize(("op", "inputs", "attributes"), INTEGER_STATEMENTS, ids=str)
def test_every_statement_of_integers(
    op: str, inputs: list[Any], attributes: dict[str, Any], formats: tuple[str, str]
) -> None:
    check_statement(op, inputs, attributes, formats)


def test_every_statement_is_tested_here() -> None:
    assert {entry[0] for entry in STATEMENTS + INTEGER_STATEMENTS} == set(ARITY)


@QUICK
@given(st.data())
def test_every_reduction(data: Any) -> None:
    op = data.draw(st.sampled_from(sorted(REDUCTIONS)))
    formats = ("fp32", "fp16", "bf16", "int32") if op not in ("any", "all") else ("bool", "fp32")
    layout = data.draw(layouts(formats).filter(lambda entry: len(entry.size) > 0))
    dims = data.draw(st.lists(st.sampled_from(range(len(layout.size))), min_size=1, unique=True))
    if op.startswith("arg"):
        dims = dims[:1]
    result_format = {"argmax": "int64", "argmin": "int64", "any": "bool", "all": "bool"}.get(
        op, layout.format
    )
    kept = Layout(
        size=tuple(1 if d in dims else n for d, n in enumerate(layout.size)),
        order=layout.order,
        format=result_format,
    )
    row = layout.stick_dim in dims
    if not row and kept.lanes != layout.lanes:
        return
    space = device_space(layout, dims)
    strides = walk(kept, layout)
    strides = tuple(0 if dim.reduced else step for dim, step in zip(space, strides, strict=True))
    space = drawn_division(data.draw, space)
    bench = Bench()
    x = bench.put("x", "input", layout, strides=layout.device_strides)
    masked = bench.put("m", "scratch", layout, strides=layout.device_strides)
    out = bench.put("out", "output", kept, strides=strides)
    dtype = layout.number.torch_dtype
    constant = {"zero": 0, "one": 1}.get(REDUCTIONS[op])
    if constant is None:
        constant = extreme(dtype, highest=REDUCTIONS[op] == "highest")
    value: Any = str(constant) if constant in (float("inf"), float("-inf")) else constant
    sticks = max(len(layout.device_size) - 3, 0)
    mask = {"dim": sticks, "valid": layout.valid, "value": value}
    body = [
        Statement(op="mask_tail", inputs=("x",), output="m", attributes=mask),
        Statement(op=op, inputs=("m",), output="out"),
    ]
    spec = KernelSpec(
        name="k",
        unit="reduction",
        op=op,
        space=space,
        operands=(x, masked, out),
        body=tuple(body),
    )
    found = bench.both(spec)["out"]
    host = bench.values["x"]
    if op in ("sum", "any", "all", "amax", "amin"):
        wide = {"dtype": torch.float32} if op == "sum" and dtype.is_floating_point else {}
        expected = getattr(torch, op)(host, dims, keepdim=True, **wide).to(found.dtype)
        close(found, expected)
    elif op.startswith("arg"):
        assert torch.equal(found, getattr(torch, op)(host, dims[0], keepdim=True))


def test_a_reduction_in_steps_over_the_reduced_extent() -> None:
    layout = row_major((96, 200), "fp32")
    bench = Bench()
    space = tuple(
        replace(dim, steps=4, cores=3) if dim.kind == "outer" else dim for dim in device_space(layout, [0])
    )
    kept = row_major((1, 200), "fp32")
    strides = tuple(0 if dim.reduced else step for dim, step in zip(space, walk(kept, layout), strict=True))
    x = bench.put("x", "input", layout, strides=layout.device_strides)
    out = bench.put("out", "output", kept, strides=strides)
    spec = KernelSpec(
        name="k",
        unit="reduction",
        op="sum",
        space=space,
        operands=(x, scratch("t", space, layout, 0), out),
        body=(
            Statement(op="exp", inputs=("x",), output="t"),
            Statement(op="sum", inputs=("t",), output="out"),
        ),
    )
    close(bench.both(spec)["out"], bench.values["x"].exp().sum(0, keepdim=True))


@QUICK
@given(st.data())
def test_matmul(data: Any) -> None:
    m, k, n = (data.draw(st.sampled_from(EXTENTS)) for _ in range(3))
    batch = data.draw(st.sampled_from([(), (2,), (1, 3)]))
    format_name = data.draw(st.sampled_from(FLOATS))
    left, right = values_of((*batch, m, k), format_name, 1), values_of((*batch, k, n), format_name, 2)
    rank = len(batch) + 2
    outer = data.draw(st.permutations(range(rank - 1)))
    order = (*outer, rank - 1)
    space = [Dim(name=f"b{d}", extent=extent) for d, extent in enumerate(batch)]
    space += [Dim(name="m", extent=m), Dim(name="n", extent=n), Dim(name="k", extent=k, reduced=True)]
    bench, spec = layout_kernel(
        "matmul",
        "matmul",
        [left, right],
        [((*batch, m, n), format_name)],
        orders=[order, tuple(range(rank)), order],
        space=drawn_division(data.draw, tuple(space)),
        output_padding=data.draw(st.sampled_from(["undefined", "zero"])),
    )
    found = bench.both(spec)["out0"]
    close(found, torch.matmul(left.float(), right.float()).to(left.dtype))


X = torch.arange(3 * 70, dtype=torch.float32).view(3, 70)
POSITIONS = torch.tensor([[2, 0, 1], [1, 1, 0]])
MOVES: list[tuple[str, list[Any], tuple[int, ...], dict[str, Any]]] = [
    ("view", [X], (7, 30), {"size": [7, 30]}),
    ("permute", [X], (70, 3), {"dims": [1, 0]}),
    ("restickify", [X], (3, 70), {}),
    ("copy", [X], (3, 70), {}),
    ("slice", [X], (3, 22), {"dim": 1, "start": 3, "end": 68, "step": 3}),
    ("expand", [X[:, :1]], (3, 66), {"size": [3, 66]}),
    ("cat", [X, X[:2], X[:1]], (6, 70), {"dim": 0}),
    ("constant_pad", [X], (4, 75), {"pad": [2, 3, 0, 1], "value": "-inf"}),
    ("flip", [X], (3, 70), {"dims": [0, 1]}),
    ("select", [X], (3,), {"dim": 1, "index": 65}),
    ("select", [X], (70,), {"dim": 0, "index": -1}),
    ("slice", [X], (2, 70), {"dim": -2, "start": 1, "end": 9, "step": 1}),
    ("slice_scatter", [X, -X[:, :4]], (3, 70), {"dim": 1, "start": 62, "end": 66, "step": 1}),
    ("select_scatter", [X, -X[0]], (3, 70), {"dim": 0, "index": 2}),
    ("repeat", [X], (2, 6, 140), {"repeats": [2, 2, 2]}),
    ("roll", [X], (3, 70), {"shifts": [5], "dims": [1]}),
    ("diagonal", [X], (3,), {"offset": 1, "dim1": 0, "dim2": 1}),
    ("unfold", [X], (3, 33, 5), {"dim": 1, "size": 5, "step": 2}),
    ("as_strided", [X], (5, 33), {"size": [5, 33], "stride": [33, 1], "offset": 4}),
    ("tril", [X], (3, 70), {"diagonal": 1}),
    ("triu", [X], (3, 70), {"diagonal": 60}),
]
OTHERS: list[tuple[str, str, list[Any], list[tuple[tuple[int, ...], str]], dict[str, Any]]] = [
    ("gather", "gather", [X, POSITIONS], [((2, 3), "fp32")], {"dim": 0}),
    ("gather", "index_select", [X, POSITIONS[0]], [((3, 70), "fp32")], {"dim": 0}),
    ("gather", "embedding", [X, POSITIONS], [((2, 3, 70), "fp32")], {"padding_idx": None}),
    ("gather", "index", [X, POSITIONS], [((3, 2, 3), "fp32")], {"dims": [1]}),
    ("gather", "index", [X, POSITIONS], [((2, 3, 70), "fp32")], {"dims": [0]}),
    ("gather", "index_select", [X, POSITIONS[0]], [((3, 3), "fp32")], {"dim": 1}),
    ("gather", "embedding", [X, POSITIONS[0, 0]], [((70,), "fp32")], {}),
    ("gather", "index", [X, POSITIONS[0], POSITIONS], [((2, 3), "fp32")], {"dims": [0, 1]}),
    ("scatter", "scatter", [X, POSITIONS, -X[:2, :3]], [((3, 70), "fp32")], {"dim": 1}),
    ("scatter", "scatter", [X, POSITIONS], [((3, 70), "fp32")], {"dim": 1, "value": 0.5}),
    ("scatter", "scatter_add", [X, POSITIONS, X[:2, :3].clone()], [((3, 70), "fp32")], {"dim": 0}),
    ("scatter", "index_add", [X, POSITIONS[0], X], [((3, 70), "fp32")], {"dim": 0, "alpha": 2}),
    (
        "scatter",
        "index_put",
        [X, POSITIONS[0], X[:1].expand(3, 70)],
        [((3, 70), "fp32")],
        {"dims": [0], "accumulate": True},
    ),
    (
        "scatter",
        "index_put",
        [X, POSITIONS[0], X[:, 0]],
        [((3, 70), "fp32")],
        {"dims": [1], "accumulate": False},
    ),
    (
        "scatter",
        "embedding_backward",
        [values_of((2, 3, 70), "fp32"), POSITIONS],
        [((5, 70), "fp32")],
        {"num_weights": 5, "padding_idx": 1},
    ),
    ("scan", "cumsum", [X], [((3, 70), "fp32")], {"dim": 1}),
    ("scan", "cumprod", [X / 50], [((3, 70), "fp32")], {"dim": 0}),
    ("fill", "full", [], [((3, 70), "bf16")], {"value": "-inf"}),
    ("fill", "arange", [], [((70,), "int64")], {"start": 3, "step": -2}),
    ("fill", "arange", [], [((70,), "fp32")], {"start": 0.5, "step": 0.25}),
    (
        "sort",
        "sort",
        [values_of((3, 70), "fp32")],
        [((3, 70), "fp32"), ((3, 70), "int64")],
        {"dim": 1, "stable": True},
    ),
    ("sort", "topk", [values_of((3, 70), "fp32")], [((3, 5), "fp32"), ((3, 5), "int64")], {"dim": 1, "k": 5}),
]
IMAGE = values_of((2, 4, 9, 11), "fp32", 5)
WINDOW = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "ceil_mode": False}
AVERAGE = {"kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1], "count_include_pad": False}
CONV = {"stride": [2, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 2}
INDICES = torch.nn.functional.max_pool2d(IMAGE, 3, 2, 1, return_indices=True)[1]
GRAD = values_of((2, 4, 5, 6), "fp32", 6)
OTHERS += [
    ("pool", "max_pool2d", [IMAGE], [((2, 4, 5, 6), "fp32"), ((2, 4, 5, 6), "int64")], WINDOW),
    ("pool", "max_pool2d", [IMAGE], [((2, 4, 5, 6), "fp32")], WINDOW),
    ("pool", "max_pool2d_backward", [GRAD, IMAGE, INDICES], [((2, 4, 9, 11), "fp32")], WINDOW),
    ("pool", "avg_pool2d", [IMAGE], [((2, 4, 5, 6), "fp32")], AVERAGE),
    ("pool", "avg_pool2d_backward", [GRAD, IMAGE], [((2, 4, 9, 11), "fp32")], AVERAGE),
    ("pool", "adaptive_avg_pool2d", [IMAGE], [((2, 4, 2, 3), "fp32")], {"output_size": [2, 3]}),
    (
        "pool",
        "adaptive_avg_pool2d_backward",
        [GRAD, IMAGE],
        [((2, 4, 9, 11), "fp32")],
        {"output_size": [5, 6]},
    ),
    (
        "convolution",
        "convolution",
        [IMAGE, values_of((6, 2, 3, 3), "fp32", 7), values_of((6,), "fp32", 8)],
        [((2, 6, 5, 11), "fp32")],
        CONV,
    ),
    (
        "convolution",
        "convolution",
        [IMAGE, values_of((4, 3, 3, 3), "fp32", 7)],
        [((2, 3, 18, 11), "fp32")],
        {**CONV, "groups": 1, "transposed": True, "output_padding": [1, 0]},
    ),
    (
        "convolution",
        "input_grad",
        [values_of((2, 6, 5, 11), "fp32"), values_of((6, 2, 3, 3), "fp32", 7)],
        [((2, 4, 9, 11), "fp32")],
        {**CONV, "input_size": [2, 4, 9, 11]},
    ),
    (
        "convolution",
        "weight_grad",
        [values_of((2, 6, 5, 11), "fp32"), IMAGE],
        [((6, 2, 3, 3), "fp32")],
        {**CONV, "weight_size": [6, 2, 3, 3]},
    ),
    (
        "convolution",
        "convolution",
        [IMAGE.to(torch.bfloat16), values_of((6, 2, 3, 3), "bf16", 7)],
        [((2, 6, 5, 11), "bf16")],
        CONV,
    ),
]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("op", "inputs", "size", "attributes"), MOVES, ids=[f"{e[0]}{n}" for n, e in enumerate(MOVES)]
)
def test_every_movement(
    op: str, inputs: list[Any], size: tuple[int, ...], attributes: dict[str, Any], turned: bool
) -> None:
    check_layout_kernel("movement", op, inputs, [(size, "fp32")], attributes, turned)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("unit", "op", "inputs", "outputs", "attributes"),
    OTHERS,
    ids=[f"{e[1]}{n}" for n, e in enumerate(OTHERS)],
)
def test_every_unit(
    unit: str,
    op: str,
    inputs: list[Any],
    outputs: list[tuple[tuple[int, ...], str]],
    attributes: dict[str, Any],
    turned: bool,
) -> None:
    check_layout_kernel(unit, op, inputs, outputs, attributes, turned)


def check_layout_kernel(
    unit: str,
    op: str,
    inputs: list[Any],
    outputs: list[tuple[tuple[int, ...], str]],
    attributes: dict[str, Any],
    turned: bool,
) -> None:
    """Run a kernel with its operands row-major, or all of them with the dimensions in the opposite order."""
    ranks = [value.dim() for value in inputs] + [len(size) for size, _ in outputs]
    orders = [tuple(reversed(range(rank))) if turned else tuple(range(rank)) for rank in ranks]
    bench, spec = layout_kernel(unit, op, inputs, outputs, attributes, orders=orders)
    spec = replace(spec, space=divide(spec.space, 4, max))
    bench.both(spec)


def test_every_op_of_the_vocabulary_is_tested_here() -> None:
    tested = {("movement", entry[0]) for entry in MOVES} | {(entry[0], entry[1]) for entry in OTHERS}
    tested.add(("matmul", "matmul"))
    known = {(unit, op) for unit, ops in LAYOUT_OPS.items() for op in ops}
    assert tested == known == {(unit, op) for unit, ops in MEANINGS.items() for op in ops}


def test_what_no_slice_covers_is_not_written() -> None:
    layout = row_major((67, 40), "fp32")
    space = tuple(replace(dim, cores=2) if dim.kind == "outer" else dim for dim in device_space(layout))
    bench = Bench()
    x = bench.put("x", "input", layout, strides=layout.device_strides)
    out = bench.put("out", "output", layout, strides=layout.device_strides)
    spec = pointwise(bench, space, [x, out], [Statement(op="copy", inputs=("x",), output="out")])
    assert [problem.rule for problem in bench.problems(spec)] == ["division"]
    for make in BACK_ENDS:
        found = bench.run(spec, make)["out"]
        assert torch.equal(found[:66], bench.values["x"][:66])
        assert found[66].isnan().all()

"""The simulator: first and later runs, divisions and aliases, what it refuses, and the back end's faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from accel_lab.mock.device import FORMATS, Device  # noqa: E402
from accel_lab.mock.faults import CATALOGUE  # noqa: E402
from accel_lab.mock.ir.layout import Layout, row_major  # noqa: E402
from accel_lab.mock.reference.back_end import ReferenceBackEnd  # noqa: E402
from accel_lab.mock.runtime.memory import DeviceAddressError, Memory  # noqa: E402
from accel_lab.mock.simulator.back_end import Simulator, SpecError  # noqa: E402
from accel_lab.mock.simulator.statements import unsafe_overlap  # noqa: E402
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Statement  # noqa: E402
from mock_specs import (  # noqa: E402
    BACK_ENDS,
    SMALL,
    Bench,
    close,
    device_space,
    layout_kernel,
    pointwise,
    scratch,
    tile_bytes,
    values_of,
    walk,
)

pytestmark = pytest.mark.torch


def one_statement(
    op: str,
    inputs: tuple[Any, ...],
    values: dict[str, torch.Tensor],
    format_name: str,
    attributes: dict[str, Any] | None = None,
) -> tuple[Bench, KernelSpec]:
    """A pointwise kernel of one statement over equal sizes."""
    bench = Bench()
    by_dtype = {entry.torch_dtype: name for name, entry in FORMATS.items()}
    size = tuple(next(iter(values.values())).shape)
    for name, value in values.items():
        layout = row_major(size, by_dtype[value.dtype])
        bench.put(name, "input", layout, value=value, strides=layout.device_strides)
    layout = row_major(size, format_name)
    bench.put("out", "output", layout, strides=layout.device_strides)
    body = [Statement(op=op, inputs=inputs, output="out", attributes=attributes or {})]
    return bench, pointwise(bench, device_space(layout), bench.operands, body)


def row_reduction(op: str, value: torch.Tensor, neutral: Any) -> tuple[Bench, KernelSpec]:
    """A masked reduction of the last dimension."""
    layout = row_major(tuple(value.shape), "fp32")
    kept = row_major((*value.shape[:-1], 1), "fp32")
    space = device_space(layout, [value.dim() - 1])
    strides = tuple(0 if dim.reduced else n for dim, n in zip(space, walk(kept, layout), strict=True))
    bench = Bench()
    x = bench.put("x", "input", layout, value=value, strides=layout.device_strides)
    held = bench.put("m", "scratch", layout, strides=layout.device_strides)
    out = bench.put("out", "output", kept, strides=strides)
    attributes = {"dim": max(len(space) - 3, 0), "valid": value.shape[-1], "value": neutral}
    body = (
        Statement(op="mask_tail", inputs=("x",), output="m", attributes=attributes),
        Statement(op=op, inputs=("m",), output="out"),
    )
    return bench, KernelSpec(
        name="rows", unit="reduction", op=op, space=space, operands=(x, held, out), body=body
    )


def test_a_second_run_uses_what_memory_holds_then() -> None:
    bench, spec = one_statement("add", ("x", 1.0), {"x": torch.zeros(3, 70)}, "fp32")
    memory = Memory(SMALL)
    simulator = Simulator(memory, SMALL)
    x, out = spec.operand("x"), spec.operand("out")
    for number in range(3):
        memory.write(x.layout, x.address, torch.full((3, 70), float(number)))
        simulator.run(spec)
        assert (memory.read(out.layout, out.address) == number + 1).all()
    del bench


def test_the_base_moves_every_operand() -> None:
    bench, spec = one_statement("neg", ("x",), {"x": values_of((3, 70), "fp32")}, "fp32")
    memory = Memory(SMALL)
    simulator = Simulator(memory, SMALL)
    for base in (0, 1 << 20):
        memory.write(spec.operand("x").layout, base + spec.operand("x").address, bench.values["x"])
        simulator.run(spec, base)
    for base in (0, 1 << 20):
        found = memory.read(spec.operand("out").layout, base + spec.operand("out").address)
        assert torch.equal(found, -bench.values["x"])


def test_specs_do_not_take_each_others_plans() -> None:
    """A plan is kept under the id of its spec; a new spec must never be given that of one that is gone."""
    memory = Memory(SMALL)
    simulator = Simulator(memory, SMALL)
    for number in range(200):
        bench, spec = one_statement("add", ("x", float(number)), {"x": torch.zeros(5)}, "fp32")
        memory.write(spec.operand("x").layout, 0, bench.values["x"])
        simulator.run(spec)
        assert memory.read(spec.operand("out").layout, spec.operand("out").address)[0] == number


@pytest.mark.parametrize("make", BACK_ENDS)
def test_inference_mode_before_or_after(make: Callable[[Memory, Device], Any]) -> None:
    bench, spec = one_statement("neg", ("x",), {"x": torch.ones(70)}, "fp32")
    memory = Memory(SMALL)
    back_end = make(memory, SMALL)
    with torch.inference_mode():
        memory.write(spec.operand("x").layout, 0, bench.values["x"])
        back_end.run(spec)
    back_end.run(spec)
    assert (memory.read(spec.operand("out").layout, spec.operand("out").address) == -1).all()


@pytest.mark.parametrize("make", BACK_ENDS)
def test_unknown_words_are_refused(make: Callable[[Memory, Device], Any]) -> None:
    bench, spec = one_statement("teleport", ("x",), {"x": torch.ones(70)}, "fp32")
    with pytest.raises(SpecError, match=r"kernel k.*teleport"):
        bench.run(spec, make)
    moved = layout_kernel("movement", "teleport", [torch.ones(3)], [((3,), "fp32")])
    with pytest.raises(SpecError, match="teleport"):
        moved[0].run(moved[1], make)


@pytest.mark.parametrize("make", BACK_ENDS)
def test_nothing_outside_the_memory_is_touched(make: Callable[[Memory, Device], Any]) -> None:
    bench, spec = one_statement("neg", ("x",), {"x": torch.ones(70)}, "fp32")
    memory = Memory(SMALL)
    with pytest.raises(DeviceAddressError):
        make(memory, SMALL).run(spec, memory.size - 128)
    del bench


@pytest.mark.parametrize("cores", [1, 2, 6])
def test_all_cores_and_one_give_the_same(cores: int) -> None:
    layout = row_major((12, 70), "fp32")
    space = tuple(
        replace(dim, cores=cores, steps=2) if dim.kind == "outer" else dim for dim in device_space(layout)
    )
    bench = Bench()
    x = bench.put("x", "input", layout, strides=layout.device_strides)
    out = bench.put("out", "output", layout, strides=layout.device_strides)
    tile = scratch("t", space, layout, 0)
    body = [
        Statement(op="exp", inputs=("x",), output="t"),
        Statement(op="mul", inputs=("t", "x"), output="out"),
    ]
    found = bench.both(pointwise(bench, space, [x, out, tile], body))["out"]
    close(found, bench.values["x"].exp() * bench.values["x"])


def test_overlapping_scratch_shows() -> None:
    """What the verifier refuses really computes something else: tiles are where the spec says."""
    layout = row_major((12, 70), "fp32")
    space = device_space(layout)
    bench = Bench()
    x = bench.put("x", "input", layout, strides=layout.device_strides)
    out = bench.put("out", "output", layout, strides=layout.device_strides)
    body = [
        Statement(op="exp", inputs=("x",), output="t"),
        Statement(op="neg", inputs=("x",), output="u"),
        Statement(op="add", inputs=("t", "u"), output="out"),
    ]
    right = tile_bytes(space, "fp32")
    expected = bench.values["x"].exp() - bench.values["x"]
    for address, same in ((right, True), (right - 128, False)):
        tiles = [scratch("t", space, layout, 0), scratch("u", space, layout, address)]
        spec = pointwise(bench, space, [x, out, *tiles], body)
        assert ([p.rule for p in bench.problems(spec)] == []) is same
        for make in BACK_ENDS:
            assert torch.allclose(bench.run(spec, make)["out"], expected) is same


def test_in_place_over_a_broadcast_input() -> None:
    layout, narrow = row_major((5, 70), "bf16"), row_major((1, 70), "bf16")
    bench = Bench()
    x = bench.put("x", "input", layout, strides=layout.device_strides)
    y = bench.put("y", "input", narrow, strides=walk(narrow, layout), seed=3)
    out = replace(x, name="out", role="output")
    spec = pointwise(
        bench, device_space(layout), [x, y, out], [Statement(op="mul", inputs=("x", "y"), output="out")]
    )
    found = bench.both(spec)["out"]
    assert torch.equal(found, bench.values["x"] * bench.values["y"])


def test_a_cast_with_the_lanes_in_two_dimensions() -> None:
    """Narrow words to wide ones: half a stick is a stick, so the lanes' index is made of two dimensions."""
    half, full = row_major((3, 128), "fp16"), row_major((3, 128), "fp32")
    space = (
        Dim(name="sticks", extent=2, kind="sticks"),
        Dim(name="half", extent=2, kind="lanes"),
        Dim(name="rows", extent=3),
        Dim(name="lanes", extent=32, kind="lanes"),
    )
    bench = Bench()
    x = bench.put("x", "input", half, strides=(3 * 64, 32, 64, 1))
    out = bench.put("out", "output", full, strides=(2 * 3 * 32, 3 * 32, 32, 1))
    mask = {"dim": 0, "valid": 100, "value": "-inf"}
    body = [Statement(op="mask_tail", inputs=("x",), output="out", attributes=mask)]
    found = bench.both(pointwise(bench, space, [x, out], body))["out"]
    assert torch.equal(found[:, :100], bench.values["x"][:, :100].float())
    assert (found[:, 100:] == -torch.inf).all()


def test_a_kernel_that_reads_padding_is_caught_by_the_poison() -> None:
    bench, spec = row_reduction("sum", torch.ones(3, 70), 0.0)
    spec = replace(spec, body=(replace(spec.body[1], inputs=("x",)),))
    assert [problem.rule for problem in bench.problems(spec)] == ["padding"]
    for make in BACK_ENDS:
        assert bench.run(spec, make)["out"].isnan().all()


@pytest.mark.parametrize("make", BACK_ENDS)
@pytest.mark.parametrize("padding", ["undefined", "zero"])
@pytest.mark.parametrize("kind", ["matmul", "movement", "reduction"])
def test_the_padding_of_results(kind: str, padding: str, make: Callable[[Memory, Device], Any]) -> None:
    if kind == "matmul":
        space = (Dim(name="m", extent=3), Dim(name="n", extent=5), Dim(name="k", extent=4, reduced=True))
        inputs = [torch.ones(3, 4), torch.ones(4, 5)]
        bench, spec = layout_kernel("matmul", "matmul", inputs, [((3, 5), "fp32")], space=space)
    elif kind == "movement":
        bench, spec = layout_kernel("movement", "copy", [torch.ones(3, 5)], [((3, 5), "fp32")])
    else:
        bench, spec = row_reduction("sum", torch.ones(3, 70), 0.0)
    spec = replace(
        spec,
        operands=tuple(replace(o, padding=padding) if o.role == "output" else o for o in spec.operands),
    )
    assert bench.problems(spec) == []
    memory = Memory(SMALL)
    memory.typed(0, torch.float32, (bench.end // 4,), (1,)).fill_(7.0)
    for operand in spec.inputs:
        memory.write(operand.layout, operand.address, bench.values[operand.name], operand.padding)
    make(memory, SMALL).run(spec)
    (output,) = spec.outputs
    lanes = memory.typed(
        output.address, torch.float32, output.layout.device_size, output.layout.device_strides
    )[..., output.layout.valid :]
    assert lanes.isnan().all() if padding == "undefined" else (lanes == 0).all()


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ((0, (4, 8), (8, 1)), (0, (4, 8), (8, 1)), False),
        ((0, (4, 8), (8, 1)), (8, (3, 8), (8, 1)), True),
        ((0, (4, 4), (8, 1)), (4, (4, 4), (8, 1)), False),
        ((0, (4, 5), (8, 1)), (4, (4, 4), (8, 1)), True),
        ((0, (4, 8), (0, 1)), (0, (4, 8), (8, 1)), True),
        ((0, (8,), (1,)), (8, (8,), (1,)), False),
        ((0, (2, 2, 2), (16, 4, 1)), (2, (2, 2, 2), (16, 4, 1)), False),
        ((0, (2, 2, 2), (16, 4, 1)), (16, (1, 2, 2), (16, 4, 1)), True),
    ],
)
def test_which_views_clash(one: Any, other: Any, clash: bool) -> None:
    line = torch.zeros(64)
    views = [line.as_strided(size, strides, start) for start, size, strides in (one, other)]
    assert unsafe_overlap(views[0], views[1]) is clash
    assert unsafe_overlap(views[1], views[0]) is clash


# ---- the faults of this layer


def ones(*size: int) -> torch.Tensor:
    return torch.ones(*size)


def shows(bench: Bench, spec: KernelSpec, fault: str, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """Which elements the fault changes; the reference back end must not have it."""
    right = bench.both(spec)[spec.outputs[0].name]
    monkeypatch.setenv("MOCK_FAULTS", fault)
    wrong = bench.run(spec)[spec.outputs[0].name]
    close(bench.run(spec, ReferenceBackEnd)[spec.outputs[0].name], right)
    assert not wrong.isnan().any()
    return wrong != right


def test_every_fault_of_the_back_end_is_tested_here() -> None:
    here = {name.removeprefix("test_fault_") for name in globals() if name.startswith("test_fault_")}
    assert here == {entry.name for entry in CATALOGUE.values() if entry.layer == "back_end"}


def test_fault_mean_counts_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, spec = row_reduction("sum", ones(3, 70), 0.0)
    assert shows(bench, spec, "mean_counts_padding", monkeypatch).all()
    bench, spec = row_reduction("sum", ones(3, 64), 0.0)
    assert not shows(bench, spec, "mean_counts_padding", monkeypatch).any()


def test_fault_row_reduction_multicore(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, spec = row_reduction("sum", values_of((40, 70), "fp32"), 0.0)
    changed = shows(bench, spec, "row_reduction_multicore", monkeypatch)
    assert changed[32:].all()
    assert not changed[:32].any()
    bench.device = replace(SMALL, cores=1)
    monkeypatch.delenv("MOCK_FAULTS")
    assert not shows(bench, spec, "row_reduction_multicore", monkeypatch).any()


@pytest.mark.parametrize("format_name", ["fp32", "fp16"])
def test_fault_negative_zero_bits(format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = FORMATS[format_name].torch_dtype
    values = {
        "x": torch.tensor([0.0, 1.0, -0.0], dtype=dtype),
        "y": torch.tensor([-0.0, 1.0, 0.0], dtype=dtype),
    }
    for op, inputs in (("eq", ("x", "y")), ("ne", ("x", "y")), ("eq", ("x", 0.0))):
        bench, spec = one_statement(op, inputs, values, format_name)
        changed = shows(bench, spec, "negative_zero_bits", monkeypatch)
        assert changed.tolist() == ([True, False, True] if inputs == ("x", "y") else [False, False, True])
        monkeypatch.delenv("MOCK_FAULTS")


def test_fault_exp_tail_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, spec = one_statement("exp", ("x",), {"x": values_of((3, 70), "fp32")}, "fp32")
    changed = shows(bench, spec, "exp_tail_wrong", monkeypatch)
    assert changed[:, 64:].all()
    assert not changed[:, :64].any()
    monkeypatch.delenv("MOCK_FAULTS")
    bench, spec = one_statement("exp", ("x",), {"x": values_of((3, 64), "fp32")}, "fp32")
    assert not shows(bench, spec, "exp_tail_wrong", monkeypatch).any()


@pytest.mark.parametrize("format_name", ["fp32", "bf16"])
def test_fault_matmul_reads_padding(format_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, wrong in ((70, True), (64, False)):
        space = (Dim(name="m", extent=3), Dim(name="n", extent=5), Dim(name="k", extent=k, reduced=True))
        inputs = [values_of((3, k), format_name, 1), values_of((k, 5), format_name, 2)]
        bench, spec = layout_kernel("matmul", "matmul", inputs, [((3, 5), format_name)], space=space)
        assert shows(bench, spec, "matmul_reads_padding", monkeypatch).any().item() is wrong
        monkeypatch.delenv("MOCK_FAULTS")


def test_a_fault_is_off_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, spec = one_statement("exp", ("x",), {"x": values_of((3, 70), "fp32")}, "fp32")
    memory = Memory(SMALL)
    simulator = Simulator(memory, SMALL)
    layout: Layout = spec.operand("x").layout
    results = []
    for fault in ("", "exp_tail_wrong", "subnormals_halved", ""):
        monkeypatch.setenv("MOCK_FAULTS", fault)
        memory.write(layout, spec.operand("x").address, bench.values["x"])
        simulator.run(spec)
        results.append(memory.read(layout, spec.operand("out").address))
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[0], results[3])
    assert not torch.equal(results[0], results[1])

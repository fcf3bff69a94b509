"""Builds kernel specs and puts them on a device, for the tests of the mock accelerator's back end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from accel_lab.mock.device import FORMATS, STICK_BYTES, Device
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.reference.back_end import ReferenceBackEnd
from accel_lab.mock.runtime.memory import Memory
from accel_lab.mock.simulator.back_end import Simulator
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Operand, Statement
from accel_lab.mock.spec.verifier import Problem, verify

SMALL = Device(memory_bytes=64 * 1024 * 1024, scratchpad_bytes=64 * 1024, span_bytes=32 * 1024 * 1024)
#: Extents on both sides of a stick of every format, and the degenerate ones.
EXTENTS = (1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
BACK_ENDS: tuple[Callable[[Memory, Device], Any], ...] = (Simulator, ReferenceBackEnd)


def values_of(size: Sequence[int], format_name: str, seed: int = 0) -> torch.Tensor:
    """Seeded numbers of a format: small ones, so that sums of integers stay in range."""
    generator = torch.Generator().manual_seed(seed)
    dtype = FORMATS[format_name].torch_dtype
    if dtype == torch.bool:
        return torch.randint(0, 2, tuple(size), generator=generator).bool()
    if dtype.is_floating_point:
        return torch.randn(tuple(size), generator=generator).to(dtype)
    low = 0 if dtype == torch.uint8 else -4
    return torch.randint(low, 5, tuple(size), generator=generator, dtype=torch.int64).to(dtype)


@dataclass
class Bench:
    """Operands placed one after the other in an arena, the kernels over them, and a device to run them on."""

    device: Device = SMALL
    end: int = 0
    operands: list[Operand] = field(default_factory=list)
    values: dict[str, torch.Tensor] = field(default_factory=dict)

    def put(
        self,
        name: str,
        role: str,
        layout: Layout,
        *,
        value: torch.Tensor | None = None,
        strides: Sequence[int] = (),
        padding: str = "undefined",
        seed: int = 0,
    ) -> Operand:
        """An operand in main memory; an input gets a value."""
        operand = Operand(
            name=name,
            role=role,
            memory="hbm",
            address=self.end,
            layout=layout,
            strides=tuple(strides),
            padding=padding,
        )
        self.end += max(layout.bytes, STICK_BYTES)
        self.operands.append(operand)
        if role == "input":
            self.values[name] = values_of(layout.size, layout.format, seed) if value is None else value
        return operand

    def run(
        self, spec: KernelSpec, make: Callable[[Memory, Device], Any] = Simulator, base: int = 256
    ) -> dict[str, torch.Tensor]:
        """The outputs of a kernel by name; the inputs are written at ``base``, all else is poisoned."""
        memory = Memory(self.device)
        memory.poison(base, self.end)
        for operand in spec.inputs:
            memory.write(operand.layout, base + operand.address, self.values[operand.name], operand.padding)
        make(memory, self.device).run(spec, base)
        return {operand.name: memory.read(operand.layout, base + operand.address) for operand in spec.outputs}

    def both(self, spec: KernelSpec) -> dict[str, torch.Tensor]:
        """The simulator's outputs, after the verifier and the reference back end agreed with it."""
        assert self.problems(spec) == []
        mine, other = (self.run(spec, make) for make in BACK_ENDS)
        for name, value in mine.items():
            close(value, other[name])
        return mine

    def problems(self, spec: KernelSpec) -> list[Problem]:
        """What the verifier says of a kernel."""
        return verify(spec, self.device, self.end)


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    """Raise AssertionError where two results differ by more than the order of a sum can make them."""
    loose = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(one.dtype, 0.0)
    torch.testing.assert_close(one, other, rtol=loose, atol=loose, equal_nan=True)


def device_space(layout: Layout, reduced: Sequence[int] = ()) -> tuple[Dim, ...]:
    """The dimensions of a layout on the device, those cut from a reduced logical dimension marked."""
    rank = len(layout.device_size)
    kinds = ["outer"] * rank
    kinds[-1] = "lanes"
    kinds[max(rank - 3, 0)] = "sticks"
    return tuple(
        Dim(name=f"d{n}", extent=extent, kind=kind, reduced=layout.dim_map[n] in reduced)
        for n, (extent, kind) in enumerate(zip(layout.device_size, kinds, strict=True))
    )


def divide(space: Sequence[Dim], most: int, pick: Callable[[list[int]], int]) -> tuple[Dim, ...]:
    """A division of a space over cores and steps; ``pick`` chooses among the divisors that are possible."""
    result, left, steps_left = [], most, 8
    for dim in space:
        if dim.kind == "lanes" or dim.extent == 0 or dim.reduced:
            result.append(dim)
            continue
        cores = pick([n for n in range(1, left + 1) if dim.extent % n == 0])
        left //= cores
        rest = dim.extent // cores
        several = pick([n for n in range(1, steps_left + 1) if rest % n == 0])
        steps_left //= several
        result.append(replace(dim, cores=cores, steps=several))
    return tuple(result)


def walk(layout: Layout, onto: Layout) -> tuple[int, ...]:
    """The strides of an operand that broadcasts to another layout's size."""
    offset = len(onto.size) - len(layout.size)
    strides = []
    seen: set[int] = set()
    for logical in onto.dim_map:
        own = logical - offset
        if logical < 0 or own < 0 or layout.size[own] == 1 != onto.size[logical]:
            strides.append(0)
        elif logical == onto.stick_dim:
            between, lane = layout.stride_of(own)
            strides.append(lane if logical in seen else between)
            seen.add(logical)
        else:
            strides.append(layout.stride_of(own)[0])
    return tuple(strides)


def tile_strides(space: Sequence[Dim]) -> tuple[int, ...]:
    """Dense strides of what one core does in one step."""
    strides, step = [], 1
    for dim in reversed(space):
        strides.append(step)
        step *= dim.extent // (dim.cores * dim.steps)
    return tuple(reversed(strides))


def tile_bytes(space: Sequence[Dim], format_name: str) -> int:
    """Bytes of one core's slice of one step, in whole sticks."""
    count = 1
    for dim in space:
        count *= dim.extent // (dim.cores * dim.steps)
    return -(-count * FORMATS[format_name].word_bytes // STICK_BYTES) * STICK_BYTES


def scratch(name: str, space: Sequence[Dim], layout: Layout, address: int) -> Operand:
    """A tile in every core's scratchpad."""
    return Operand(
        name=name,
        role="scratch",
        memory="scratchpad",
        address=address,
        layout=layout,
        strides=tile_strides(space),
    )


def pointwise(
    bench: Bench, space: Sequence[Dim], operands: Sequence[Operand], body: Sequence[Statement]
) -> KernelSpec:
    """A pointwise kernel."""
    return KernelSpec(
        name="k", unit="pointwise", op="fused", space=tuple(space), operands=tuple(operands), body=tuple(body)
    )


def layout_kernel(
    unit: str,
    op: str,
    inputs: Sequence[torch.Tensor],
    outputs: Sequence[tuple[Sequence[int], str]],
    attributes: dict[str, Any] | None = None,
    *,
    orders: Sequence[Sequence[int]] = (),
    space: Sequence[Dim] | None = None,
    names: Sequence[str] = (),
    output_padding: str = "undefined",
) -> tuple[Bench, KernelSpec]:
    """A kernel of a unit that takes operands by layout; ``orders`` has the inputs' orders first."""
    bench = Bench()
    all_sizes = [tuple(value.shape) for value in inputs] + [tuple(size) for size, _ in outputs]
    order_of = list(orders) or [tuple(range(len(size))) for size in all_sizes]
    by_dtype = {entry.torch_dtype: name for name, entry in FORMATS.items()}
    formats = [by_dtype[value.dtype] for value in inputs] + [name for _, name in outputs]
    layouts = [
        Layout(size=size, order=tuple(order), format=name)
        for size, order, name in zip(all_sizes, order_of, formats, strict=True)
    ]
    for number, value in enumerate(inputs):
        name = names[number] if names else f"in{number}"
        zero = unit == "matmul" and number == 0
        bench.put(name, "input", layouts[number], value=value, padding="zero" if zero else "undefined")
    for number in range(len(outputs)):
        bench.put(f"out{number}", "output", layouts[len(inputs) + number], padding=output_padding)
    dims = space or [Dim(name=f"d{n}", extent=extent) for n, extent in enumerate(outputs[0][0])]
    spec = KernelSpec(
        name="k",
        unit=unit,
        op=op,
        space=tuple(dims),
        operands=tuple(bench.operands),
        attributes=attributes or {},
    )
    return bench, spec


def all_orders(rank: int) -> list[tuple[int, ...]]:
    """Every order of the dimensions."""
    return list(itertools.permutations(range(rank)))

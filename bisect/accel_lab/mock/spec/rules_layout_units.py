"""Verifier rules for by-layout units: matmul, convolution, pool, movement and so on."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from accel_lab.mock.device import Device
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.reference.units import meaning

from .kernel_spec import KernelSpec, Operand
from .vocabulary import in_order

Found = Iterator[tuple[str, str]]
INDEXED = {
    "gather": 1,
    "index_select": 1,
    "embedding": 1,
    "scatter": 1,
    "scatter_add": 1,
    "embedding_backward": 1,
    "index_add": 1,
}


def layout_unit_problems(spec: KernelSpec, device: Device) -> Found:
    """Yields the violations of one kernel as (rule, message)."""
    for operand in spec.operands:
        if operand.strides:
            yield "strides", f"operand {operand.name}: the unit {spec.unit} takes operands by layout"
        if operand.role == "scratch":
            yield "operands", f"operand {operand.name}: the unit {spec.unit} uses no scratch"
        share = operand.layout.bytes // spec.cores
        if share > device.span_bytes:
            yield (
                "span",
                f"operand {operand.name}: {share} bytes a core, and its span is {device.span_bytes}",
            )
    yield from _space(spec)
    yield from _overlaps(spec)
    yield from _formats(spec)
    if spec.unit == "matmul":
        yield from _matmul(spec)
    yield from _shapes(spec)


def _space(spec: KernelSpec) -> Found:
    """The space must equal the output's size, plus k for a matmul."""
    wanted = spec.outputs[0].layout.size
    if spec.unit == "matmul":
        wanted = (*wanted, spec.inputs[0].layout.size[-1] if spec.inputs[0].layout.size else 1)
        if [dim.reduced for dim in spec.space] != [False] * (len(wanted) - 1) + [True]:
            yield "space", "of a matmul's space the last dimension, k, is reduced and no other"
    elif any(dim.reduced for dim in spec.space):
        yield "space", f"the unit {spec.unit} has no reduced dimensions"
    have = tuple(dim.extent for dim in spec.space)
    if have != wanted:
        yield "space", f"the space is {have}, and the output asks for {wanted}"


def _overlaps(spec: KernelSpec) -> Found:
    """An output must not overlap any other operand."""
    for position, one in enumerate(spec.operands):
        for other in spec.operands[position + 1 :]:
            if one.role == other.role == "input":
                continue
            if (
                one.address < other.address + other.layout.bytes
                and other.address < one.address + one.layout.bytes
            ):
                yield "overlap", f"{one.name} and {other.name} share bytes"


def _formats(spec: KernelSpec) -> Found:
    inputs = in_order(spec)
    if spec.unit in ("matmul", "convolution"):
        found = sorted({operand.layout.format for operand in spec.inputs})
        if len(found) > 1:
            yield "dtype", f"{spec.op} takes operands of one format, not {' and '.join(found)}"
    indexed = [inputs[INDEXED[spec.op]]] if spec.op in INDEXED else []
    if spec.op in ("index", "index_put"):
        indexed = [*inputs[1 : 1 + len(spec.attributes["dims"])]]
    for operand in indexed:
        number = operand.layout.number.torch_dtype
        if number.is_floating_point:
            yield "dtype", f"operand {operand.name}: an index cannot be {operand.layout.format}"
    if spec.unit == "sort" or spec.op == "max_pool2d":
        for operand in spec.outputs[1:]:
            if operand.layout.format != "int64":
                yield "dtype", f"output {operand.name}: indices are int64, not {operand.layout.format}"


def _matmul(spec: KernelSpec) -> Found:
    """A matmul's sticks must be along k (left) and n (right, output), and the padding of k must be zero."""
    left, right = spec.inputs
    for operand, what in ((left, "k"), (right, "n"), (spec.outputs[0], "n")):
        rank = len(operand.layout.size)
        if rank < 2:
            yield "sticks", f"operand {operand.name}: a matmul takes matrices"
        elif operand.layout.stick_dim != rank - 1:
            yield "sticks", f"operand {operand.name}: its sticks do not lie along {what}"
    if left.layout.padding and left.padding != "zero":
        yield "padding", f"operand {left.name}: the padding of k must be zero, and it is {left.padding}"


def _shapes(spec: KernelSpec) -> Found:
    """The op's results must have the outputs' sizes."""
    try:
        results = meaning(spec.unit, spec.op, spec.attributes, spec.outputs[0].layout.size)(
            *(_ghost(operand) for operand in in_order(spec))
        )
    except NotImplementedError:
        return
    except (RuntimeError, IndexError, ValueError, TypeError, KeyError) as error:
        yield "shape", f"{spec.op} cannot be applied: {str(error).splitlines()[0] if str(error) else error!r}"
        return
    if len(results) < len(spec.outputs):
        yield "operands", f"{spec.op} has {len(results)} results, not {len(spec.outputs)}"
    for operand, result in zip(spec.outputs, results, strict=False):
        if tuple(result.shape) != operand.layout.size:
            yield (
                "shape",
                f"output {operand.name}: {spec.op} makes {tuple(result.shape)}, not {operand.layout.size}",
            )


def _ghost(operand: Operand) -> torch.Tensor:
    """A meta tensor of an operand's size and dtype."""
    layout: Layout = operand.layout
    return torch.empty(layout.size, dtype=layout.number.torch_dtype, device="meta")

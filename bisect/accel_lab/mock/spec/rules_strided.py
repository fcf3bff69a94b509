"""Verifier rules for strided kernels: pointwise and reduction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from accel_lab.mock.device import Device
from accel_lab.mock.ir.layout import Layout

from .kernel_spec import KernelSpec, Operand, Statement
from .vocabulary import ARGUMENTS

Found = Iterator[tuple[str, str]]


def strided_problems(spec: KernelSpec, device: Device) -> Found:
    """Yields the violations of one kernel as (rule, message), except those of padding."""
    malformed = [operand for operand in spec.operands if len(operand.strides) != len(spec.space)]
    for operand in malformed:
        yield (
            "strides",
            f"operand {operand.name}: {len(operand.strides)} strides, {len(spec.space)} dimensions",
        )
    for operand in spec.operands:
        if min(operand.strides, default=0) < 0:
            yield "strides", f"operand {operand.name}: a negative stride"
            malformed.append(operand)
    if malformed:
        return
    yield from _bounds(spec, device)
    yield from _coverage(spec)
    yield from _masks(spec)
    yield from _reduced(spec)
    yield from _races(spec)
    yield from _overlaps(spec)


def reach(spec: KernelSpec, operand: Operand) -> int:
    """Returns the bytes from an operand's address to the end of the last element accessed.

    In a scratchpad this is one core's slice of one step.
    """
    local = operand.memory == "scratchpad"
    last = 0
    for dim, stride in zip(spec.space, operand.strides, strict=True):
        extent = dim.extent // (dim.cores * dim.steps) if local else dim.extent
        if extent == 0:
            return 0
        last += (extent - 1) * stride
    return (last + 1) * operand.layout.number.word_bytes


def _bounds(spec: KernelSpec, device: Device) -> Found:
    for operand in spec.operands:
        end = reach(spec, operand)
        if operand.memory == "scratchpad":
            if operand.address < 0 or operand.address + end > device.scratchpad_bytes:
                yield (
                    "capacity",
                    f"operand {operand.name}: bytes up to {operand.address + end} of a scratchpad of "
                    f"{device.scratchpad_bytes}",
                )
            continue
        if end > operand.layout.bytes:
            yield (
                "bounds",
                f"operand {operand.name}: {end} bytes are walked and its layout has {operand.layout.bytes}",
            )
        one_core = sum(
            (dim.extent // dim.cores - 1) * stride
            for dim, stride in zip(spec.space, operand.strides, strict=True)
            if dim.extent
        )
        span = (one_core + 1) * operand.layout.number.word_bytes
        if span > device.span_bytes:
            yield (
                "span",
                f"operand {operand.name}: one core walks {span} bytes, its span is {device.span_bytes}",
            )


def _coverage(spec: KernelSpec) -> Found:
    """Every element of every output must be written."""
    for operand in spec.outputs:
        layout = operand.layout
        moving = [
            (dim.extent, stride)
            for dim, stride in zip(spec.space, operand.strides, strict=True)
            if dim.extent != 1 and stride
        ]
        empty = any(dim.extent == 0 for dim in spec.space if not dim.reduced)
        if not layout.elements or (empty and not math.prod(layout.size)):
            continue
        if math.prod(extent for extent, _ in moving) == layout.elements and _distinct(moving):
            continue
        missing = layout.elements if empty else _missing(layout, moving)
        if missing:
            yield "coverage", f"output {operand.name}: {missing} of its elements are never written"


def _distinct(moving: list[tuple[int, int]]) -> bool:
    """Whether all points certainly have distinct addresses."""
    filled = 0
    for extent, stride in sorted(moving, key=lambda entry: entry[1]):
        if stride <= filled:
            return False
        filled += (extent - 1) * stride
    return True


def _missing(layout: Layout, moving: list[tuple[int, int]]) -> int:
    """The number of valid elements that are not written, by marking all written ones."""
    count = max(layout.elements, 1 + sum((extent - 1) * stride for extent, stride in moving))
    marks = torch.zeros(count, dtype=torch.uint8, device="cpu")
    marks.as_strided([extent for extent, _ in moving], [stride for _, stride in moving]).fill_(1)
    sticks = marks[: layout.elements].view(layout.device_size)
    if len(layout.order) > 1:
        sticks = sticks.movedim(-3, -2)
    lined_up = sticks.reshape(*sticks.shape[:-2], -1)[..., : layout.valid]
    return int(lined_up.numel() - lined_up.sum(dtype=torch.int64))


def _masks(spec: KernelSpec) -> Found:
    """A mask must be on the stick dimension, and its valid extent must end in the last stick."""
    lanes = math.prod(dim.extent for dim in spec.space if dim.kind == "lanes")
    for number, statement in enumerate(spec.body):
        if statement.op != "mask_tail":
            continue
        dim = spec.space[statement.attributes["dim"]]
        valid = statement.attributes["valid"]
        if dim.kind != "sticks":
            yield "stick_count", f"statement {number}: dimension {dim.name} does not count sticks"
        elif not (dim.extent - 1) * lanes < valid <= dim.extent * lanes:
            yield (
                "stick_count",
                f"statement {number}: {valid} elements do not fill {dim.extent} sticks of {lanes} lanes",
            )


def _reduced(spec: KernelSpec) -> Found:
    """Only reductions may have reduced dimensions, and their output must have stride 0 along these."""
    reduced = [dim for dim in spec.space if dim.reduced]
    if spec.unit == "pointwise":
        if reduced:
            yield "space", f"a pointwise kernel reduces nothing, and dimension {reduced[0].name} is reduced"
        return
    if not reduced:
        yield "space", "a reduction without a reduced dimension"
    output = spec.operand(spec.body[-1].output)
    for dim, stride in zip(spec.space, output.strides, strict=True):
        if dim.reduced and stride:
            yield "strides", f"output {output.name}: it moves along the reduced dimension {dim.name}"
    kinds = [dim.kind for dim in reduced]
    if spec.body[-1].op in ARGUMENTS and kinds.count("outer") + ("sticks" in kinds or "lanes" in kinds) > 1:
        yield "space", f"{spec.body[-1].op} reduces one dimension"
    if ("lanes" in kinds) != ("sticks" in kinds) and any(dim.kind == "sticks" for dim in spec.space):
        yield "space", "sticks and lanes are reduced together or not at all"


def _races(spec: KernelSpec) -> Found:
    """If a target has stride 0 along a dimension, its inputs must too, unless it is reduced."""
    for number, statement in enumerate(spec.body):
        if spec.unit == "reduction" and number == len(spec.body) - 1:
            continue
        target = spec.operand(statement.output)
        for axis, dim in enumerate(spec.space):
            extent = dim.extent // dim.cores if target.memory == "scratchpad" else dim.extent
            if extent <= 1 or target.strides[axis]:
                continue
            if statement.op == "index" or any(operand.strides[axis] for operand in _read(spec, statement)):
                yield (
                    "race",
                    f"statement {number}: {target.name} stands still along {dim.name} and its inputs move",
                )


def _read(spec: KernelSpec, statement: Statement) -> list[Operand]:
    return [operand for operand in spec.operands if operand.name in statement.inputs]


@dataclass(frozen=True, kw_only=True)
class _Life:
    """An operand's lifetime, from its first write to its last read, as statement numbers; -1: before all."""

    operand: Operand
    start: int
    end: int
    bytes: int


def _lives(spec: KernelSpec) -> list[_Life]:
    lives = []
    for operand in spec.operands:
        writes = [n for n, statement in enumerate(spec.body) if statement.output == operand.name]
        reads = [n for n, statement in enumerate(spec.body) if operand.name in statement.inputs]
        start = -1 if operand.role == "input" else min(writes, default=-1)
        end = len(spec.body) if operand.role == "output" else max([*reads, *writes], default=start)
        lives.append(_Life(operand=operand, start=start, end=end, bytes=reach(spec, operand)))
    return lives


def _overlaps(spec: KernelSpec) -> Found:
    """Operands that are live at the same time must not overlap, and none may be read before it is written."""
    for number, statement in enumerate(spec.body):
        for operand in _read(spec, statement):
            written = any(earlier.output == operand.name for earlier in spec.body[:number])
            if operand.role != "input" and not written:
                yield "lifetime", f"statement {number} reads {operand.name} before anything is written there"
    lives = _lives(spec)
    for position, one in enumerate(lives):
        for other in lives[position + 1 :]:
            if _clash(one, other):
                yield (
                    "overlap",
                    f"{one.operand.name} and {other.operand.name} share bytes of the {one.operand.memory} "
                    "while both are in use",
                )


def _clash(one: _Life, other: _Life) -> bool:
    if one.operand.memory != other.operand.memory or (one.operand.role == other.operand.role == "input"):
        return False
    if not one.bytes or not other.bytes:
        return False
    if (
        one.operand.address + one.bytes <= other.operand.address
        or other.operand.address + other.bytes <= one.operand.address
    ):
        return False
    same_walk = (
        one.operand.address == other.operand.address
        and one.operand.strides == other.operand.strides
        and one.operand.layout.number.word_bytes == other.operand.layout.number.word_bytes
    )
    apart = one.end < other.start or other.end < one.start
    if one.operand.memory == "scratchpad" and apart:
        return False
    touching = one.end <= other.start or other.end <= one.start
    return not (same_walk and touching)

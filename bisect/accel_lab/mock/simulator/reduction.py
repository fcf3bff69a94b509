"""Reductions of the vector unit: the last statement of a fused program, over whole sticks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from accel_lab.mock.device import HALVES
from accel_lab.mock.faults import active
from accel_lab.mock.spec.kernel_spec import Statement

from .context import Call, Context, covered
from .layout_views import fill_padding, stick_views
from .pointwise import Step, VectorUnit, reduced_dims

Reduce = Callable[[torch.Tensor], torch.Tensor]

#: Functions that combine partial results of reductions in several steps.
COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "prod": torch.mul,
    "amax": torch.maximum,
    "amin": torch.minimum,
    "any": torch.logical_or,
    "all": torch.logical_and,
}
ARGUMENTS = ("argmax", "argmin")
REDUCTIONS = (*COMBINE, *ARGUMENTS)


class Reduction:
    """The reduction of one kernel."""

    def __init__(self, unit: VectorUnit, statement: Statement) -> None:
        self.unit = unit
        self.statement = statement
        self.dims = reduced_dims(unit.space)
        self.axes = [axis for position in self.dims for axis in unit.axes[position]]
        self.row = any(unit.space[position].kind == "lanes" for position in self.dims)

    def source(self, step: Step) -> torch.Tensor:
        """Returns the view that is reduced in one step."""
        (name,) = self.statement.inputs
        return self.unit.view(self.unit.operands[str(name)], step)

    def target(self, step: Step) -> torch.Tensor:
        """Returns the view of the result, with the reduced axes of extent 1."""
        out = self.unit.view(self.unit.operands[self.statement.output], step)
        for axis in self.axes:
            out = out.narrow(axis, 0, 1)
        return out

    def function(self, sample: torch.Tensor) -> Reduce:
        """Returns the keepdim reduction; sums and products of halves in fp32. Raises SpecError."""
        op, axes = self.statement.op, self.axes
        wide: dict[str, Any] = {"dtype": torch.float32} if sample.dtype in HALVES else {}
        if op == "sum":
            return lambda x: torch.sum(x, axes, keepdim=True, **wide)
        if op == "prod":
            return lambda x: _product(x, axes, wide)
        if op in ARGUMENTS:
            return lambda x: _argument(x, axes, op)
        if op in COMBINE:
            function = getattr(torch, op)
            return lambda x: function(x, axes, keepdim=True)
        raise self.unit.context.refuse("vocabulary", f"no reduction is called {op!r}")

    def calls(self, step: Step) -> list[Call]:
        """Returns the calls if one step covers the whole reduced extent."""
        source, out = self.source(step), self.target(step)
        exact = self.function(source)
        compute = self._with_faults(exact, source, step)
        direct = {"sum": torch.sum, "amax": torch.amax, "amin": torch.amin}.get(self.statement.op)
        if direct is not None and compute is exact and source.dtype == out.dtype:
            return [partial(direct, source, self.axes, keepdim=True, out=out)]
        return [lambda: out.copy_(compute(source))]

    def partial_calls(self, steps: list[Step], prologue: Callable[[Step], list[Call]]) -> list[Call]:
        """Returns the calls if the reduced extent is split into sequential steps. Raises SpecError."""
        combine = COMBINE.get(self.statement.op)
        if combine is None:
            raise self.unit.context.refuse("reduced_steps", f"{self.statement.op} is not done in steps")
        held: list[torch.Tensor] = []
        calls: list[Call] = []

        def accumulate(compute: Reduce, source: torch.Tensor) -> None:
            value = compute(source)
            held[:] = [combine(held[0], value) if held else value]

        def finish(out: torch.Tensor) -> None:
            out.copy_(held.pop())

        for step in steps:
            source = self.source(step)
            compute = self._with_faults(self.function(source), source, step)
            calls += [*prologue(step), partial(accumulate, compute, source)]
        return [*calls, partial(finish, self.target(steps[0]))]

    def _with_faults(self, compute: Reduce, source: torch.Tensor, step: Step) -> Reduce:
        """Wraps the reduction with the active faults of this layer."""
        if self.row and active("mean_counts_padding"):
            return self._padding_counted(compute, step)
        cores = self.unit.context.device.cores
        if (
            self.row
            and cores > 1
            and source.dtype == torch.float32
            and self.statement.op not in ARGUMENTS
            and active("row_reduction_multicore")
        ):

            def beyond_the_cores(x: torch.Tensor) -> torch.Tensor:
                value = compute(x).clone()
                rows = value.view(-1)
                rows[cores:] = rows[torch.arange(cores, rows.numel(), device="cpu") % cores]
                return value

            return beyond_the_cores
        return compute

    def _padding_counted(self, compute: Reduce, step: Step) -> Reduce:
        """Fault mean_counts_padding: padding lanes of the last stick hold its first element."""
        unit = self.unit
        sticks = [position for position in self.dims if unit.space[position].kind == "sticks"]
        lanes = [position for position in self.dims if unit.space[position].kind == "lanes"]
        valid = next(
            (
                statement.attributes["valid"]
                for statement in unit.context.spec.body
                if statement.op == "mask_tail" and statement.attributes["dim"] in sticks
            ),
            unit.operands[str(self.statement.inputs[0])].layout.valid,
        )
        if not sticks or len(lanes) != 1:
            return compute
        axis = unit.axes[lanes[0]][0]
        width = unit.space[lanes[0]].extent
        if not valid % width or (unit.space[sticks[0]].extent - 1) * width >= valid:
            return compute

        def with_padding(x: torch.Tensor) -> torch.Tensor:
            stale = x.clone()
            last = unit.last_stick(stale, sticks[0], step)
            if last is not None:
                last.narrow(axis, valid % width, width - valid % width).copy_(last.narrow(axis, 0, 1))
            return compute(stale)

        return with_padding


def reduction_plan(context: Context) -> list[Call]:
    """Returns the plan of a reduction kernel with its fused prologue."""
    *prologue, last = context.spec.body
    unit = VectorUnit(context)
    reduction = Reduction(unit, last)

    def before(step: Step) -> list[Call]:
        return [call for statement in prologue for call in unit.calls(statement, step)]

    calls = _padding_calls(context, unit, reduction)
    for steps in _groups(unit, reduction.dims):
        if len(steps) == 1:
            calls += before(steps[0]) + reduction.calls(steps[0])
        else:
            calls += reduction.partial_calls(steps, before)
    if not all(covered(unit.space[position]) for position in reduction.dims):
        calls += _empty_calls(unit, reduction)
    return calls


def _groups(unit: VectorUnit, reduced: list[int]) -> Iterator[list[Step]]:
    """Groups the steps by the part of the output that they contribute to."""
    groups: dict[Step, list[Step]] = {}
    for step in unit.steps():
        key = tuple(0 if position in reduced else at for position, at in enumerate(step))
        groups.setdefault(key, []).append(step)
    return iter(groups.values())


def _padding_calls(context: Context, unit: VectorUnit, reduction: Reduction) -> list[Call]:
    """Calls that fill the output's padding if the space does not cover its lanes."""
    output = unit.operands[reduction.statement.output]
    if not output.layout.padding or not reduction.row:
        return []
    views = stick_views(context.memory, output.layout, context.base + output.address)
    return [partial(fill_padding, views, output.padding, context.device.poison)]


def _empty_calls(unit: VectorUnit, reduction: Reduction) -> list[Call]:
    """Calls that store the neutral element, if any, for an empty reduction."""
    if reduction.statement.op not in ("sum", "prod", "any", "all"):
        return []
    operand = unit.operands[reduction.statement.output]
    views = stick_views(unit.context.memory, operand.layout, unit.context.base + operand.address)
    value = 1 if reduction.statement.op in ("prod", "all") else 0
    return [partial(view.fill_, value) for view in (views.whole, views.tail) if view is not None]


def _product(x: torch.Tensor, axes: list[int], wide: dict[str, Any]) -> torch.Tensor:
    for axis in axes:
        x = torch.prod(x, axis, keepdim=True, **wide)
    return x


def _argument(x: torch.Tensor, axes: list[int], op: str) -> torch.Tensor:
    """The argmax or argmin along the reduced axes, flattened in their order."""
    others = [axis for axis in range(x.dim()) if axis not in axes]
    line = x.permute(*others, *axes).reshape([x.shape[axis] for axis in others] + [-1])
    found = torch.argmax(line, -1) if op == "argmax" else torch.argmin(line, -1)
    for axis in sorted(axes):
        found = found.unsqueeze(axis)
    return found

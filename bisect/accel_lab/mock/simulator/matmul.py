"""The matrix unit: (batch..., m, k) x (batch..., k, n), accumulated in fp32 for the half formats."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from accel_lab.mock.faults import active
from accel_lab.mock.spec.kernel_spec import Operand

from .context import Call, Context, Load, covered, logical_plan, wide
from .layout_views import fill_padding, stick_views


def matmul_plan(context: Context) -> list[Call]:
    """Returns the plan of a matmul kernel."""
    left, right = context.spec.inputs
    (output,) = context.spec.outputs
    dtype = wide(output.layout)
    load_left, load_right = context.load(left, dtype), context.load(right, dtype)
    if left.layout.size[-1] % left.layout.lanes and active("matmul_reads_padding"):
        lanes = left.layout.lanes
        return logical_plan(
            context, lambda a, b: torch.matmul(*_with_padding(a, b, lanes)), [load_left, load_right]
        )
    if _by_sticks(context, right, output, dtype):
        return _stick_plan(context, right, output, load_left)
    return logical_plan(context, torch.matmul, [load_left, load_right])


def _by_sticks(context: Context, right: Operand, output: Operand, dtype: torch.dtype) -> bool:
    """Whether the product can be computed per stick of n, directly on the device's views."""
    whole = all(covered(dim) == dim.extent for dim in context.spec.space)
    natural = all(operand.layout.order == (0, 1) for operand in (right, output))
    same = right.layout.number.torch_dtype == output.layout.number.torch_dtype == dtype == torch.float32
    return whole and natural and same and right.layout.elements > 0 and output.layout.elements > 0


def _stick_plan(context: Context, right: Operand, output: Operand, load_left: Load) -> list[Call]:
    """Computes a product per stick of n, including padding lanes, then fills these as declared."""
    columns, out = context.stick_view(right), context.stick_view(output)
    sticks = columns.shape[0]
    views = stick_views(context.memory, output.layout, context.base + output.address)

    def multiply() -> Any:
        left = load_left()
        torch.bmm(left.expand(sticks, *left.shape), columns, out=out)

    return [multiply, partial(fill_padding, views, output.padding, context.device.poison)]


def _with_padding(a: torch.Tensor, b: torch.Tensor, lanes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Fault matmul_reads_padding: beyond k, ``a`` repeats its first lane and ``b`` its last row."""
    extra = -a.shape[-1] % lanes
    stale = a[..., :1].expand(*a.shape[:-1], extra)
    beyond = b[..., -1:, :].expand(*b.shape[:-2], extra, b.shape[-1])
    return torch.cat([a, stale], -1), torch.cat([b, beyond], -2)

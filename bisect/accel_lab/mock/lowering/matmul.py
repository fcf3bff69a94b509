"""Lowerings to the matrix unit: mm, bmm, addmm, baddbmm, mv and dot."""

from __future__ import annotations

import torch

from accel_lab.mock.device import accumulator
from accel_lab.mock.ir.loop_ir import View

from .builder import Builder, Unsupported, lowers
from .formats import Number


def matmul(build: Builder, left: View, right: View, *, result: torch.dtype | None = None) -> View:
    """Emits ``left @ right`` with equal batch dimensions, in dtype ``result`` (default: the operands')."""
    dtype = build.dtype(left)
    if dtype != build.dtype(right):
        raise Unsupported(f"a matrix product of {dtype} and {build.dtype(right)}")
    if not dtype.is_floating_point:
        raise Unsupported("the matrix unit has no integers")
    size = (*left.size[:-1], right.size[-1])
    if left.size[-1] == 0:
        return build.full(size, 0.0, result or dtype)
    return build.unit("matmul", "matmul", {"left": left, "right": right}, size, result or dtype)


@lowers("aten.mm", "aten.bmm")
def _product(build: Builder, out: torch.Tensor, left: View, right: View) -> View:
    return matmul(build, left, right)


@lowers("aten.addmm", "aten.baddbmm")
def _added_product(
    build: Builder,
    out: torch.Tensor,
    bias: View,
    left: View,
    right: View,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> View:
    # Eager rounds once, after the sum, so a product of halves stays in fp32 until then.
    exact = accumulator(out.dtype)
    product = matmul(build, left, right, result=exact)
    if alpha != 1:
        product = build.pointwise("mul", [product, alpha], exact)
    if beta == 0:
        return build.cast(product, out.dtype)
    scaled = bias if beta == 1 else build.pointwise("mul", [bias, beta], exact)
    return build.pointwise("add", [product, scaled], out.dtype, compute=exact, size=out.shape)


@lowers("aten.mv")
def _vector_product(build: Builder, out: torch.Tensor, left: View, right: View) -> View:
    column = build.reshape(right, (*right.size, 1))
    return build.reshape(matmul(build, left, column), tuple(out.shape))


@lowers("aten.dot")
def _dot(build: Builder, out: torch.Tensor, left: View, right: View) -> View:
    row, column = build.reshape(left, (1, *left.size)), build.reshape(right, (*right.size, 1))
    return build.reshape(matmul(build, row, column), ())

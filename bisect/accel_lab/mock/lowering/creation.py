"""Lowerings of operators that create tensors from numbers."""

from __future__ import annotations

from typing import Any

import torch

from accel_lab.mock.ir.loop_ir import View

from .builder import Builder, lowers
from .formats import Number, number_for


@lowers("aten.full")
def _full(build: Builder, out: torch.Tensor, size: Any, value: Number, **_: Any) -> View:
    return build.full(tuple(out.shape), value, out.dtype)


@lowers("aten.full_like", "aten.new_full", "aten.fill.Scalar")
def _full_like(build: Builder, out: torch.Tensor, x: View, *rest: Any, **_: Any) -> View:
    return build.full(tuple(out.shape), rest[-1], out.dtype)


# The content of an empty tensor is undefined; zeros make runs comparable.
@lowers("aten.zeros", "aten.zeros_like", "aten.new_zeros", "aten.zero", "aten.empty", "aten.empty_like")
@lowers("aten.new_empty", "aten.empty_strided", "aten.new_empty_strided", "aten.empty_permuted")
def _zeros(build: Builder, out: torch.Tensor, *_: Any, **__: Any) -> View:
    return build.full(tuple(out.shape), 0, out.dtype)


@lowers("aten.ones", "aten.ones_like", "aten.new_ones")
def _ones(build: Builder, out: torch.Tensor, *_: Any, **__: Any) -> View:
    return build.full(tuple(out.shape), 1, out.dtype)


@lowers("aten.scalar_tensor")
def _scalar_tensor(build: Builder, out: torch.Tensor, value: Number, **_: Any) -> View:
    return build.full((), value, out.dtype)


@lowers("aten.arange")
def _arange(build: Builder, out: torch.Tensor, *bounds: Number, **_: Any) -> View:
    start, _end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    return arange(build, out, start, step)


@lowers("prims.iota")
def _iota(build: Builder, out: torch.Tensor, length: int, *, start: int, step: int, **_: Any) -> View:
    return arange(build, out, start, step)


def arange(build: Builder, out: torch.Tensor, start: Number, step: Number) -> View:
    """Emits ``start``, ``start + step``, ... with the size and dtype of ``out``."""
    exact = out.dtype if out.dtype.is_floating_point else torch.int64
    attributes = {"start": number_for(start, exact), "step": number_for(step, exact)}
    return build.unit("fill", "arange", {}, out.shape, out.dtype, attributes)

"""Lowerings of reductions, scans and sorts; halves are reduced in fp32, as eager does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from accel_lab.mock import faults
from accel_lab.mock.device import HALVES, accumulator
from accel_lab.mock.ir.loop_ir import View

from .builder import Builder, Unsupported, lowers
from .formats import Number

Dims = Sequence[int] | int | None


def _axes(dims: Dims) -> list[int] | None:
    if dims is None:
        return None
    return [dims] if isinstance(dims, int) else list(dims)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The accumulation dtype of a reduction with result ``dtype``."""
    if faults.active("accumulate_downcast"):
        return dtype
    return accumulator(dtype)


def count(size: Sequence[int], dims: Dims) -> int:
    """Returns the number of elements that are reduced to one result."""
    axes = _axes(dims)
    chosen = axes if axes else range(len(size))
    return math.prod(size[axis] for axis in chosen) if size else 1


@lowers("aten.sum")
def _sum(
    build: Builder,
    out: torch.Tensor,
    x: View,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> View:
    if out.dtype in HALVES and build.dtype(x) == out.dtype:
        return build.reduce("sum", x, _axes(dims), keepdim, out.dtype)
    wide = _wide(out.dtype)
    return build.cast(build.reduce("sum", x, _axes(dims), keepdim, wide, compute=wide), out.dtype)


@lowers("aten.mean")
def _mean(
    build: Builder,
    out: torch.Tensor,
    x: View,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> View:
    wide = _wide(out.dtype)
    total = build.reduce("sum", x, _axes(dims), keepdim, wide, compute=wide)
    number = count(x.size, dims)
    mean = build.pointwise("div", [total, number], wide)
    return build.cast(mean, out.dtype)


def _moments(
    build: Builder, x: View, dims: Dims, correction: Number | None, keepdim: bool, dtype: torch.dtype
) -> tuple[View, View]:
    """Emits (variance, mean)."""
    wide = _wide(dtype)
    x = build.cast(x, wide)
    number = count(x.size, dims)
    mean = build.pointwise("div", [build.reduce("sum", x, _axes(dims), True, wide), number], wide)
    away = build.pointwise("sub", [x, mean], wide)
    square = build.pointwise("mul", [away, away], wide)
    total = build.reduce("sum", square, _axes(dims), keepdim, wide)
    rest = max(0, number - (1 if correction is None else correction))
    variance = build.pointwise("div", [total, rest], wide)
    if not keepdim:
        chosen = {axis % len(x.size) for axis in _axes(dims) or range(len(x.size))} if x.size else set()
        mean = mean.permuted([axis for axis in range(len(x.size)) if axis not in chosen])
    return build.cast(variance, dtype), build.cast(mean, dtype)


@lowers("aten.var.correction")
def _variance(
    build: Builder,
    out: torch.Tensor,
    x: View,
    dims: Dims = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> View:
    return _moments(build, x, dims, correction, keepdim, out.dtype)[0]


@lowers("aten.var_mean.correction")
def _variance_and_mean(
    build: Builder,
    out: tuple[torch.Tensor, torch.Tensor],
    x: View,
    dims: Dims = None,
    *,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[View, View]:
    return _moments(build, x, dims, correction, keepdim, out[0].dtype)


@lowers("aten.prod")
def _prod(
    build: Builder,
    out: torch.Tensor,
    x: View,
    dims: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> View:
    wide = _wide(out.dtype)
    return build.cast(build.reduce("prod", x, _axes(dims), keepdim, wide, compute=wide), out.dtype)


def _extreme(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View, dims: Dims = None, keepdim: bool = False) -> View:
        return build.reduce(op, x, _axes(dims), keepdim, out.dtype)

    short = op.removeprefix("a")

    @lowers(f"aten.{short}.default")
    def lower_all(build: Builder, out: torch.Tensor, x: View) -> View:
        return build.reduce(op, x, None, False, out.dtype)

    @lowers(f"aten.{short}.dim")
    def lower_dim(
        build: Builder, out: tuple[torch.Tensor, torch.Tensor], x: View, dim: int, keepdim: bool = False
    ) -> tuple[View, View]:
        if not x.size:
            return x, build.full((), 0, torch.int64)
        values = build.reduce(op, x, [dim], keepdim, out[0].dtype)
        return values, _position(build, f"arg{short}", x, dim, keepdim)


def _position(build: Builder, op: str, x: View, dim: int | None, keepdim: bool) -> View:
    if not x.size:
        return build.full((), 0, torch.int64)
    if build.dtype(x) == torch.bool:
        x = build.cast(x, torch.uint8)  # torch has no argmax of bools
    if dim is None:
        flat = build.reshape(x, (math.prod(x.size),))
        place = build.reduce(op, flat, [0], False, torch.int64)
        return build.reshape(place, (1,) * len(x.size)) if keepdim else place
    return build.reduce(op, x, [dim], keepdim, torch.int64)


def _truth(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(build: Builder, out: torch.Tensor, x: View, dims: Dims = None, keepdim: bool = False) -> View:
        result = build.reduce(op, x, _axes(dims), keepdim, torch.bool, compute=torch.bool)
        return build.cast(result, out.dtype)


def _argument(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(
        build: Builder, out: torch.Tensor, x: View, dim: int | None = None, keepdim: bool = False
    ) -> View:
        return _position(build, op, x, dim, keepdim)


for _name in ("amax", "amin"):
    _extreme(_name)
for _name in ("any", "all"):
    _truth(_name)
for _name in ("argmax", "argmin"):
    _argument(_name)


def _scan(op: str) -> None:
    @lowers(f"aten.{op}")
    def lower(
        build: Builder, out: torch.Tensor, x: View, dim: int, *, dtype: torch.dtype | None = None
    ) -> View:
        x = build.cast(x, out.dtype)
        if not x.size:
            return x
        attributes = {"dim": dim % len(x.size)}
        return build.unit("scan", op, {"input": x}, x.size, out.dtype, attributes)


_scan("cumsum")
_scan("cumprod")


@lowers("aten.topk")
def _topk(
    build: Builder,
    out: tuple[torch.Tensor, torch.Tensor],
    x: View,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[View, View]:
    return _ordered(build, "topk", x, out, dim, {"k": k, "largest": largest, "sorted": sorted})


@lowers("aten.sort.default", "aten.sort.stable")
def _sort(
    build: Builder,
    out: tuple[torch.Tensor, torch.Tensor],
    x: View,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> tuple[View, View]:
    # A stable sort is a valid unstable one, and its result is comparable.
    return _ordered(build, "sort", x, out, dim, {"descending": descending, "stable": True})


def _ordered(
    build: Builder,
    op: str,
    x: View,
    out: tuple[torch.Tensor, torch.Tensor],
    dim: int,
    attributes: dict[str, int | bool],
) -> tuple[View, View]:
    if not x.size:
        raise Unsupported(f"{op} of a tensor without dimensions")
    size = tuple(out[0].shape)
    values, indices = build.units(
        "sort",
        op,
        {"input": x},
        {"values": (size, out[0].dtype), "indices": (size, out[1].dtype)},
        {"dim": dim % len(x.size), **attributes},
    )
    return values, indices

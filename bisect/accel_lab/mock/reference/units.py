"""Reference definitions of by-layout units on logical tensors, independent of the simulator.

:func:`meaning` returns a function from input tensors to a tuple of outputs. It also works on meta tensors,
from which the verifier gets the result's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from .statements import as_number

Attributes = dict[str, Any]
Meaning = Callable[..., Sequence[torch.Tensor]]


def meaning(unit: str, op: str, attributes: Attributes, size: tuple[int, ...]) -> Meaning:
    """Returns the function of a unit's op; ``size`` is the first output's. Raises KeyError if unknown."""
    make = MEANINGS[unit][op]
    return lambda *inputs: _tuple(make(attributes, size, *inputs))


def _tuple(value: Any) -> Sequence[torch.Tensor]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def _wide(*inputs: torch.Tensor | None) -> list[Any]:
    """Converts floating-point inputs to fp32, as the matrix and sliding-window units do."""
    return [x.float() if x is not None and x.is_floating_point() else x for x in inputs]


def _matmul(a: Attributes, size: tuple[int, ...], left: torch.Tensor, right: torch.Tensor) -> Any:
    return torch.matmul(*_wide(left, right))


def _convolution(
    a: Attributes,
    size: tuple[int, ...],
    source: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> Any:
    source, weight, bias = _wide(source, weight, bias)
    stride, padding, dilation = a["stride"], a["padding"], a["dilation"]
    rank, groups = len(stride), a.get("groups", 1)
    if a.get("transposed"):
        function = (
            functional.conv_transpose1d,
            functional.conv_transpose2d,
            functional.conv_transpose3d,
        )[rank - 1]
        extra = a.get("output_padding", [0] * rank)
        return function(source, weight, bias, stride, padding, extra, groups, dilation)
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    return convolve(source, weight, bias, stride, padding, dilation, groups)


def _input_grad(a: Attributes, size: tuple[int, ...], grad: torch.Tensor, weight: torch.Tensor) -> Any:
    grad, weight = _wide(grad, weight)
    source = torch.zeros(a.get("input_size", size), dtype=grad.dtype, device=grad.device)
    return _gradient(lambda x: _convolution(a, size, x, weight), source, grad)


def _weight_grad(a: Attributes, size: tuple[int, ...], grad: torch.Tensor, source: torch.Tensor) -> Any:
    grad, source = _wide(grad, source)
    weight = torch.zeros(a.get("weight_size", size), dtype=grad.dtype, device=grad.device)
    return _gradient(lambda w: _convolution(a, size, source, w), weight, grad)


def _gradient(
    function: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor, grad: torch.Tensor
) -> torch.Tensor:
    """The vector-Jacobian product of ``function`` at ``at`` with ``grad``."""
    with torch.enable_grad():
        leaf = at.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(function(leaf), leaf, grad)
    return found


def _max_window(a: Attributes) -> dict[str, Any]:
    return {
        "kernel_size": a["kernel_size"],
        "stride": a.get("stride") or a["kernel_size"],
        "padding": a.get("padding", [0, 0]),
        "dilation": a.get("dilation", [1, 1]),
        "ceil_mode": bool(a.get("ceil_mode", False)),
    }


def _max_pool(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    return functional.max_pool2d(*_wide(source), **_max_window(a), return_indices=True)


def _max_pool_backward(
    a: Attributes, size: tuple[int, ...], grad: torch.Tensor, source: torch.Tensor, indices: torch.Tensor
) -> Any:
    """Scatters each gradient to the position of its maximum."""
    (wide,) = _wide(grad)
    planes = torch.zeros(source.shape, dtype=wide.dtype, device=grad.device).flatten(-2)
    return planes.scatter_add(-1, indices.flatten(-2).long(), wide.flatten(-2)).view(source.shape)


def _average_pool(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    return functional.avg_pool2d(
        *_wide(source),
        kernel_size=a["kernel_size"],
        stride=a.get("stride") or a["kernel_size"],
        padding=a.get("padding", [0, 0]),
        ceil_mode=bool(a.get("ceil_mode", False)),
        count_include_pad=bool(a.get("count_include_pad", True)),
        divisor_override=a.get("divisor_override"),
    )


def _average_pool_backward(
    a: Attributes, size: tuple[int, ...], grad: torch.Tensor, source: torch.Tensor
) -> Any:
    grad, source = _wide(grad, source)
    return _gradient(lambda x: _average_pool(a, size, x), torch.zeros_like(source), grad)


def _adaptive_pool(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    return functional.adaptive_avg_pool2d(*_wide(source), a["output_size"])


def _adaptive_pool_backward(
    a: Attributes, size: tuple[int, ...], grad: torch.Tensor, source: torch.Tensor
) -> Any:
    grad, source = _wide(grad, source)
    window = grad.shape[-2:]
    return _gradient(lambda x: functional.adaptive_avg_pool2d(x, window), torch.zeros_like(source), grad)


def _slice(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    return source[_slice_index(a, source)]


def _slice_index(a: Attributes, source: torch.Tensor) -> tuple[slice, ...]:
    dim = a.get("dim", 0) % source.dim()
    return (slice(None),) * dim + (slice(a.get("start"), a.get("end"), a.get("step", 1)),)


def _slice_scatter(a: Attributes, size: tuple[int, ...], source: torch.Tensor, part: torch.Tensor) -> Any:
    result = source.clone(memory_format=torch.contiguous_format)
    result[_slice_index(a, source)] = part
    return result


def _select_scatter(a: Attributes, size: tuple[int, ...], source: torch.Tensor, part: torch.Tensor) -> Any:
    result = source.clone(memory_format=torch.contiguous_format)
    result.select(a["dim"], a["index"]).copy_(part)
    return result


def _as_strided(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    line = source.reshape(-1)
    index = torch.full((1,) * len(a["size"]), a.get("offset") or 0, device=source.device)
    for axis, (extent, stride) in enumerate(zip(a["size"], a["stride"], strict=True)):
        shape = [-1 if n == axis else 1 for n in range(len(a["size"]))]
        index = index + (torch.arange(extent, device=source.device) * stride).view(shape)
    return line[index.reshape(-1)].view(a["size"])


def _index_key(a: Attributes, source: torch.Tensor, indices: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """The subscript with indices for the dimensions ``dims`` and full slices for the others."""
    key: list[Any] = [slice(None)] * source.dim()
    for dim, index in zip(a["dims"], indices, strict=True):
        key[dim] = index if index.dtype == torch.bool else index.long()
    while key and isinstance(key[-1], slice):
        key.pop()
    return tuple(key)


def _index_put(a: Attributes, size: tuple[int, ...], source: torch.Tensor, *rest: torch.Tensor) -> Any:
    result = source.clone(memory_format=torch.contiguous_format)
    key = _index_key(a, source, rest[:-1])
    if a.get("accumulate"):
        places = [None if isinstance(entry, slice) else entry for entry in key]
        # Unlike Tensor.index_put_, the operator accepts dimensions without an index.
        return torch.ops.aten.index_put.default(result, places, rest[-1], True)
    result[key] = rest[-1]
    return result


def _scatter(
    a: Attributes, size: tuple[int, ...], source: torch.Tensor, index: torch.Tensor, *part: torch.Tensor
) -> Any:
    result = source.clone(memory_format=torch.contiguous_format)
    if part:
        return result.scatter_(a["dim"], index.long(), part[0])
    return result.scatter_(a["dim"], index.long(), as_number(a["value"]))


def _embedding_backward(
    a: Attributes, size: tuple[int, ...], grad: torch.Tensor, indices: torch.Tensor
) -> Any:
    """Sums gradient rows by index; the padding row stays zero."""
    rows = torch.zeros(a["num_weights"], grad.shape[-1], dtype=torch.float32, device=grad.device)
    held = grad.reshape(-1, grad.shape[-1]).float()
    padding = a.get("padding_idx", -1)
    line = indices.reshape(-1).long()
    if padding is not None and padding >= 0:
        held = held * (line != padding).unsqueeze(-1)
    return rows.index_add_(0, line, held)


def _arange(a: Attributes, size: tuple[int, ...]) -> Any:
    numbers = torch.arange(math.prod(size))
    return numbers * a.get("step", 1) + a.get("start", 0)


def _topk(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    return source.topk(a["k"], a.get("dim", -1), bool(a.get("largest", True)), bool(a.get("sorted", True)))


def _sort(a: Attributes, size: tuple[int, ...], source: torch.Tensor) -> Any:
    return source.sort(
        dim=a.get("dim", -1),
        descending=bool(a.get("descending", False)),
        stable=bool(a.get("stable", False)),
    )


MEANINGS: dict[str, dict[str, Callable[..., Any]]] = {
    "matmul": {"matmul": _matmul},
    "convolution": {
        "convolution": _convolution,
        "input_grad": _input_grad,
        "weight_grad": _weight_grad,
    },
    "pool": {
        "max_pool2d": _max_pool,
        "max_pool2d_backward": _max_pool_backward,
        "avg_pool2d": _average_pool,
        "avg_pool2d_backward": _average_pool_backward,
        "adaptive_avg_pool2d": _adaptive_pool,
        "adaptive_avg_pool2d_backward": _adaptive_pool_backward,
    },
    "movement": {
        "view": lambda a, size, x: x.contiguous().view(a["size"]),
        "permute": lambda a, size, x: x.permute(a["dims"]),
        "restickify": lambda a, size, x: x,
        "copy": lambda a, size, x: x,
        "slice": _slice,
        "expand": lambda a, size, x: x.expand(a["size"]),
        "cat": lambda a, size, *parts: torch.cat(parts, dim=a.get("dim", 0)),
        "constant_pad": lambda a, size, x: functional.pad(x, a["pad"], value=as_number(a.get("value", 0))),
        "flip": lambda a, size, x: torch.flip(x, a["dims"]),
        "select": lambda a, size, x: x.select(a["dim"], a["index"]),
        "slice_scatter": _slice_scatter,
        "select_scatter": _select_scatter,
        "repeat": lambda a, size, x: torch.tile(x, a["repeats"]),
        "roll": lambda a, size, x: torch.roll(x, a["shifts"], a.get("dims") or None),
        "diagonal": lambda a, size, x: torch.diagonal(
            x, a.get("offset", 0), a.get("dim1", 0), a.get("dim2", 1)
        ),
        "unfold": lambda a, size, x: x.unfold(a["dim"], a["size"], a["step"]),
        "as_strided": _as_strided,
        "tril": lambda a, size, x: x.tril(a.get("diagonal", 0)),
        "triu": lambda a, size, x: x.triu(a.get("diagonal", 0)),
    },
    "gather": {
        "gather": lambda a, size, x, index: x.gather(a["dim"], index.long()),
        "index_select": lambda a, size, x, index: x.index_select(a["dim"], index.long()),
        "embedding": lambda a, size, weight, indices: functional.embedding(indices.long(), weight),
        "index": lambda a, size, x, *indices: x[_index_key(a, x, indices)],
    },
    "scatter": {
        "scatter": _scatter,
        "scatter_add": lambda a, size, x, index, part: x.scatter_add(a["dim"], index.long(), part),
        "index_put": _index_put,
        "embedding_backward": _embedding_backward,
        "index_add": lambda a, size, x, index, part: x.index_add(
            a["dim"], index.long(), part, alpha=as_number(a.get("alpha", 1))
        ),
    },
    "scan": {
        "cumsum": lambda a, size, x: x.cumsum(a["dim"]),
        "cumprod": lambda a, size, x: x.cumprod(a["dim"]),
    },
    "fill": {
        "full": lambda a, size: torch.tensor(as_number(a["value"])).expand(size),
        "arange": _arange,
    },
    "sort": {"topk": _topk, "sort": _sort},
}

"""The grid's cases: every operator of the mock as a function of one tensor, whatever its size and layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

FLOATS = ("float32", "float16", "bfloat16")
NUMBERS = (*FLOATS, "int64")
ALL = (*NUMBERS, "bool")
WHOLE = ("int64", "bool")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A function of one tensor, the dtypes that it takes, and the ranks and sizes."""

    function: Callable[[Any], Any]
    dtypes: tuple[str, ...] = FLOATS
    rank: int | None = None
    filled: bool = False

    def takes(self, size: tuple[int, ...]) -> bool:
        """Whether eager runs it at this size."""
        return (self.rank is None or len(size) == self.rank) and not (self.filled and 0 in size)


def _row(x: Any) -> Any:
    """One row of the same width, to broadcast."""
    return torch.arange(x.shape[-1]).to(x.dtype)


def _index(x: Any, count: int) -> Any:
    """Valid, repeated and unordered places along the last dimension."""
    return torch.arange(count) * 7 % max(1, x.shape[-1])


def _image(x: Any) -> Any:
    """The tensor as a batch of images of 5 by 6 and as many channels as it has columns."""
    return (x.t()[None, :, :1, None].expand(2, -1, 5, 6) * torch.arange(30).reshape(5, 6).to(x.dtype)) / 9


def _weight(x: Any, width: int) -> Any:
    return torch.linspace(-1, 1, x.shape[1] * width * 9).reshape(width, x.shape[1], 3, 3).to(x.dtype)


_UNARY = [
    "abs",
    "neg",
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "tanh",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "sigmoid",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "isnan",
    "isinf",
]
_POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh"]
_WITHIN = ["asin", "acos", "atanh"]
_BINARY = ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"]
_BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
_LOGIC = ["logical_and", "logical_or", "logical_xor"]


def _applied(name: str) -> Callable[[Any], Any]:
    return getattr(torch, name)  # type: ignore[no-any-return]


def _both(name: str) -> Callable[[Any], Any]:
    operator = getattr(torch, name)
    return lambda x: (operator(x, x.flip(0)), operator(x, _row(x)), operator(x, x[..., :1]))


def _on(function: Callable[[Any], Any], prepare: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(prepare(x))


def _pointwise() -> dict[str, Case]:
    cases = {name: Case(function=_applied(name)) for name in _UNARY}
    cases |= {name: Case(function=_on(_applied(name), lambda x: x.abs() + 1.25)) for name in _POSITIVE}
    cases |= {name: Case(function=_on(_applied(name), lambda x: x.clamp(-3, 3) / 4)) for name in _WITHIN}
    cases |= {name: Case(function=_both(name), dtypes=NUMBERS) for name in _BINARY}
    cases |= {name: Case(function=_both(name), dtypes=WHOLE) for name in _BITS}
    cases |= {name: Case(function=_both(name), dtypes=ALL) for name in _LOGIC}
    return cases | {
        "relu": Case(function=torch.relu, dtypes=NUMBERS),
        "reciprocal": Case(function=lambda x: torch.reciprocal(x.abs() + 1)),
        "bitwise_not": Case(function=torch.bitwise_not, dtypes=WHOLE),
        "logical_not": Case(function=torch.logical_not, dtypes=ALL),
        "div": Case(function=lambda x: (x / (x.abs() + 2), x / 3, 3 / (x.abs() + 2)), dtypes=NUMBERS),
        "div_rounded": Case(
            function=lambda x: (
                torch.div(x, 3, rounding_mode="floor"),
                torch.div(x, 3, rounding_mode="trunc"),
            ),
            dtypes=NUMBERS,
        ),
        "floor_divide": Case(function=lambda x: x // 3, dtypes=NUMBERS),
        "remainder": Case(function=lambda x: (x % 3, torch.fmod(x, 3)), dtypes=NUMBERS),
        "atan2": Case(function=lambda x: torch.atan2(x, x.flip(0) + 1)),
        "pow": Case(function=lambda x: (x**2, x.abs() ** 0.5, 2**x, (x.abs() + 1) ** x)),
        "clamp": Case(
            function=lambda x: (x.clamp(-1, 1), x.clamp_min(0), x.clamp_max(0), x.clamp(x.flip(0), None)),
            dtypes=NUMBERS,
        ),
        "where": Case(function=lambda x: (torch.where(x > 0, x, _row(x)), torch.where(x > 0, x, 2))),
        "masked_fill": Case(function=lambda x: x.masked_fill(x > 0, float("-inf")).exp()),
        "hardtanh": Case(function=lambda x: (functional.hardtanh(x), functional.relu6(x))),
        "leaky_relu": Case(function=lambda x: functional.leaky_relu(x, 0.1)),
        "activations": Case(
            function=lambda x: (
                functional.gelu(x),
                functional.silu(x),
                functional.softplus(x),
                functional.mish(x),
            )
        ),
        "casts": Case(
            function=lambda x: (x.float(), x.half(), x.bfloat16(), x.long(), x.int(), x.bool()), dtypes=ALL
        ),
        "shares": Case(function=lambda x: (x + x.mT.mT, x.mT * x.mT.exp(), (x.mT + 1).mT * 2)),
    }


def _reductions() -> dict[str, Case]:
    def each(operator: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda x: (operator(x, -1), operator(x, 0), operator(x, -1, keepdim=True))

    return {
        "sum": Case(function=lambda x: (x.sum(), x.sum(-1), x.sum(0), x.mT.sum(-1)), dtypes=ALL),
        "mean": Case(function=each(torch.mean)),
        "var": Case(function=lambda x: (x.var(-1), x.var(0, correction=0), *torch.var_mean(x, -1))),
        "prod": Case(function=lambda x: (x.prod(), x.prod(-1), x.prod(0)), dtypes=NUMBERS),
        "amax": Case(function=lambda x: (x.amax(-1), x.amin(0), x.amax(), x.amin(-1, True)), filled=True),
        "max": Case(function=lambda x: (*x.max(-1), *x.min(0), x.max(), x.min()), filled=True),
        "argmax": Case(
            function=lambda x: (x.argmax(-1), x.argmin(0), x.argmax(), x.argmin(-1, True)),
            dtypes=NUMBERS,
            filled=True,
        ),
        "any": Case(function=lambda x: (x.any(-1), x.all(0), x.any(), x.all()), dtypes=ALL),
        "softmax": Case(function=lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(-1))),
        "logsumexp": Case(function=lambda x: (x.logsumexp(-1), x.logsumexp(0)), filled=True),
        "norm": Case(function=lambda x: (x.norm(), x.norm(dim=-1), torch.linalg.vector_norm(x, 1, 0))),
        "layer_norm": Case(function=lambda x: functional.layer_norm(x, x.shape[-1:]), filled=True),
        "batch_norm": Case(
            function=lambda x: functional.batch_norm(x, None, None, training=True), rank=2, filled=True
        ),
        "cumsum": Case(function=lambda x: (x.cumsum(-1), x.cumsum(0)), dtypes=NUMBERS),
        "cumprod": Case(function=lambda x: (x.cumprod(-1), x.cumprod(0))),
    }


def _products() -> dict[str, Case]:
    def batch(x: Any) -> Any:
        return torch.stack([x, x.flip(0), x + 1])

    return {
        "mm": Case(function=lambda x: (x @ x.t(), x.t() @ x, (x + 1) @ x.t()), rank=2, dtypes=NUMBERS),
        "mv": Case(function=lambda x: (x @ _row(x), torch.dot(x[0], _row(x))), rank=2, filled=True),
        "addmm": Case(
            function=lambda x: (
                torch.addmm(x[:, :1], x, x.t()),
                functional.linear(x, x + 1, x[:, 0]),
                torch.addmm(x[0, 0], x, x.t(), alpha=0.5, beta=2),
            ),
            rank=2,
            filled=True,
        ),
        "bmm": Case(function=lambda x: (batch(x) @ batch(x).mT, batch(x).mT @ x), rank=2),
        "baddbmm": Case(
            function=lambda x: torch.baddbmm(x[0, 0], batch(x), batch(x).mT), rank=2, filled=True
        ),
        "attention": Case(
            function=lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None] * 2),
            filled=True,
        ),
        "convolution": Case(
            function=lambda x: functional.conv2d(_image(x), _weight(x, 4), stride=2, padding=1),
            rank=2,
            filled=True,
        ),
        "convolution_backward": Case(function=_convolution_backward, rank=2, filled=True),
        "convolution_turned": Case(
            function=lambda x: functional.conv_transpose2d(
                _image(x), _weight(x, 4).transpose(0, 1), stride=2
            ),
            rank=2,
            filled=True,
        ),
        "pools": Case(
            function=lambda x: (
                *functional.max_pool2d(_image(x), 3, 2, 1, return_indices=True),
                functional.avg_pool2d(_image(x), 3, 2, 1),
                functional.adaptive_avg_pool2d(_image(x), (2, 3)),
            ),
            rank=2,
            filled=True,
        ),
        "pools_backward": Case(function=_pools_backward, rank=2, filled=True),
    }


def _convolution_backward(x: Any) -> Any:
    image, weight = _image(x), _weight(x, 4)
    grad = functional.conv2d(image, weight, padding=1)
    return torch.ops.aten.convolution_backward(
        grad, image, weight, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
    )


def _pools_backward(x: Any) -> Any:
    image = _image(x)
    pooled, indices = functional.max_pool2d(image, 3, 2, 1, return_indices=True)
    aten = torch.ops.aten
    square = ([3, 3], [2, 2], [1, 1])
    return (
        aten.max_pool2d_with_indices_backward(pooled, image, *square, [1, 1], False, indices),
        aten.avg_pool2d_backward(pooled, image, *square, False, True, None),
        aten._adaptive_avg_pool2d_backward(pooled[..., :2, :2], image),
    )


def _moves() -> dict[str, Case]:
    return {
        "view": Case(
            function=lambda x: (x.reshape(-1), x.reshape(-1) * 2, (x + 1).reshape(-1)),
            dtypes=ALL[:4],
        ),
        "permute": Case(
            function=lambda x: (x.mT.contiguous(), x.mT + 1, x.transpose(0, -1).clone()), dtypes=NUMBERS
        ),
        "expand": Case(
            function=lambda x: (x[..., :1].expand(x.shape).clone(), x[None].expand(3, *x.shape) * 2),
            dtypes=NUMBERS,
        ),
        "squeeze": Case(function=lambda x: (x[..., None] * 2, (x[:, None] + 1).squeeze(1)), dtypes=ALL[:4]),
        "slice": Case(function=lambda x: (x[1:], x[..., 1:], x[..., ::2] + 1, x[:, :-1].clone()), dtypes=ALL),
        "select": Case(function=lambda x: (x[0], x[..., -1] * 2, x.unbind(0)), dtypes=NUMBERS, filled=True),
        "cat": Case(
            function=lambda x: (torch.cat([x, x + 1, x], -1), torch.cat([x, x]), torch.stack([x, x])),
            dtypes=NUMBERS,
        ),
        "split": Case(function=lambda x: (*x.split(2), *x.chunk(2, -1)), dtypes=ALL, filled=True),
        "pad": Case(
            function=lambda x: (functional.pad(x, (1, 2), value=3), functional.pad(x, (0, 1, 2, 0))),
            dtypes=NUMBERS,
        ),
        "pad_negative": Case(function=lambda x: functional.pad(x, (-1, 2)), dtypes=NUMBERS, filled=True),
        "flip": Case(function=lambda x: (x.flip(0), x.flip(-1), x.flip(0, -1)), dtypes=ALL),
        "roll": Case(function=lambda x: (x.roll(1, -1), x.roll(3, 0), x.roll(2)), dtypes=NUMBERS),
        "repeat": Case(function=lambda x: (x.repeat(2, *[1] * (x.dim() - 1)), x.repeat(1, 2, 3)[0])),
        "triangle": Case(function=lambda x: (x.tril(), x.triu(1), x.tril(-1)), dtypes=ALL),
        "diagonal": Case(function=lambda x: (x.diagonal() * 2, x.diagonal(1) + 1), rank=2, dtypes=NUMBERS),
        "unfold": Case(function=lambda x: x.unfold(-1, 1, 1) * 2, dtypes=NUMBERS),
        "as_strided": Case(
            function=lambda x: torch.as_strided(x.clone().contiguous(), (2, 1), (1, 1)) + 1,
            dtypes=NUMBERS,
            filled=True,
        ),
        "slice_scatter": Case(
            function=lambda x: (
                torch.slice_scatter(x, x[:1] * 2, 0, 0, 1),
                torch.slice_scatter(x, x[..., :1] * 2, x.dim() - 1, x.shape[-1] - 1, None),
            ),
            filled=True,
            dtypes=NUMBERS,
        ),
        "select_scatter": Case(
            function=lambda x: torch.select_scatter(x, x[..., 0] * 2, -1, -1), filled=True, dtypes=NUMBERS
        ),
        "gather": Case(
            function=lambda x: (x.gather(-1, _index(x, 5).expand(*x.shape[:-1], 5)), x[..., _index(x, 9)]),
            filled=True,
            dtypes=NUMBERS,
        ),
        "index_select": Case(
            function=lambda x: (x.index_select(-1, _index(x, 70)), x[[0, -1, 0]]), filled=True, dtypes=NUMBERS
        ),
        "index_put": Case(
            function=lambda x: (
                x.index_put((_index(x, 2) * 0,), x[:1] * 2),
                torch.index_add(x, x.dim() - 1, _index(x, 4), x[..., :1].expand(*x.shape[:-1], 4)),
                torch.ops.aten._unsafe_index_put(x, [_index(x, 2) * 0], x[:1], True),
            ),
            filled=True,
            dtypes=NUMBERS,
        ),
        "embedding": Case(
            function=lambda x: (
                functional.embedding(_index(x, 9) % x.shape[0], x),
                torch.ops.aten.embedding_dense_backward(x, torch.arange(x.shape[0]) % 5, 7, 3, False),
            ),
            rank=2,
            filled=True,
        ),
        "scatter": Case(
            function=lambda x: (
                x.scatter(-1, _index(x, 1).expand(*x.shape[:-1], 1), 7),
                x.scatter(-1, _index(x, 1).expand(*x.shape[:-1], 1), x[..., :1] * 2),
                x.scatter_add(
                    -1, (_index(x, 4) // 2).expand(*x.shape[:-1], 4), x[..., :1].repeat(*_last(x, 4))
                ),
            ),
            filled=True,
            dtypes=NUMBERS,
        ),
        "sort": Case(
            function=lambda x: (*x.sort(dim=-1, stable=True), x.sort(0, descending=True).values),
            dtypes=NUMBERS,
        ),
        "topk": Case(function=lambda x: (x.topk(1, -1).values, x.topk(1, 0).values), filled=True),
    }


def _last(x: Any, count: int) -> list[int]:
    return [1] * (x.dim() - 1) + [count]


def _made() -> dict[str, Case]:
    return {
        "filled": Case(
            function=lambda x: (
                torch.full_like(x, 3),
                torch.zeros_like(x),
                x.new_ones(3, 65) * 2,
                x.new_full((2, 3), 4),
                torch.zeros(x.shape) + x,
                torch.ones(x.shape[-1]) * x,
            ),
            dtypes=NUMBERS,
        ),
        "arange": Case(
            function=lambda x: (
                torch.arange(x.shape[-1]) + x,
                torch.arange(3, 200, 3),
                torch.arange(0.0, 5.0, 0.25) * 2,
            ),
            dtypes=NUMBERS,
        ),
        "in_place": Case(function=_in_place, dtypes=NUMBERS),
    }


def _in_place(x: Any) -> Any:
    y = x.clone()
    y += 1
    y[:1] = 0
    y[..., :1].mul_(2)
    return y, y.zero_()


CASES: dict[str, Case] = {**_pointwise(), **_reductions(), **_products(), **_moves(), **_made()}

"""Executes operations of the loop IR that combine several points: reductions, scans, sorts, searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..torch_internals.loop_ir import ops_value, virtualized
from .index_expressions import evaluate
from .nest_trace import NotInterpretable

if TYPE_CHECKING:
    from .operations import Space


def reduction(space: Space, dtype: torch.dtype, kind: str, value: Any) -> Any:
    """Computes `ops.reduction`; the result keeps a dimension of size 1 per reduction loop.

    Raises :class:`NotInterpretable` for an unknown kind.
    """
    parts = value if isinstance(value, tuple) else (value,)
    rows = [_rows(space, space.value(part)) for part in parts]
    shape = [*space.shape[: space.iteration_loops], *([1] * (len(space.shape) - space.iteration_loops))]
    simple = _SIMPLE.get(kind)
    if simple is not None and len(rows) == 1:
        return simple(rows[0], dtype).reshape(shape)
    if kind.startswith(("argmax", "argmin")):
        return _arg(kind, dtype, rows, shape)
    if kind == "welford_reduce" and len(rows) == 1:
        return _welford_reduce(rows[0], dtype, shape)
    if kind == "welford_combine" and len(rows) == 3:
        return _welford_combine(rows[0], rows[1], rows[2], dtype, shape)
    if kind == "online_softmax_reduce":
        return _online_softmax(rows, dtype, shape)
    raise NotInterpretable("reduction %r over %d values" % (kind, len(rows)))


def _rows(space: Space, value: torch.Tensor) -> torch.Tensor:
    """The value with all reduction loops flattened into its last dimension."""
    return space.full(value).reshape([*space.shape[: space.iteration_loops], -1])


def _sum(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.sum(x, -1, dtype=dtype)


def _xor(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    x = x.to(dtype)
    while x.shape[-1] > 1:
        half = (x.shape[-1] + 1) // 2
        tail = torch.nn.functional.pad(x[..., half:], (0, 2 * half - x.shape[-1]))
        x = torch.bitwise_xor(x[..., :half], tail)
    return x.sum(-1, dtype=dtype)


def _extreme(name: str) -> Callable[[torch.Tensor, torch.dtype], torch.Tensor]:
    def function(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        result: torch.Tensor = getattr(torch, name)(x, -1)
        return result.to(dtype)

    return function


def _fmax(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The maximum ignoring NaN; NaN only if all values are NaN."""
    lowest = torch.where(torch.isnan(x), torch.full_like(x, float("-inf")), x).amax(-1)
    return torch.where(torch.isnan(x).all(-1), torch.full_like(lowest, float("nan")), lowest).to(dtype)


_SIMPLE: Dict[str, Callable[[torch.Tensor, torch.dtype], torch.Tensor]] = {
    "sum": _sum,
    "dot": _sum,
    "prod": lambda x, dtype: torch.prod(x, -1, dtype=dtype),
    "max": _extreme("amax"),
    "min": _extreme("amin"),
    "fmax": _fmax,
    "any": lambda x, dtype: torch.any(x.to(torch.bool), -1).to(dtype),
    "xor_sum": _xor,
}


def _arg(kind: str, dtype: torch.dtype, rows: List[torch.Tensor], shape: List[int]) -> Any:
    """Position of the extreme value: NaN wins over numbers, and the lowest index wins a tie.

    ``rows[1]``, if given, has the index of each point; otherwise the index is the position in loop order.
    """
    x = rows[0]
    if x.dtype == torch.bool:
        x = x.to(torch.uint8)
    best = (torch.amin if kind.startswith("argmin") else torch.amax)(x, -1, keepdim=True)
    hit = (x == best) | (x != x) & (best != best)
    place = (
        rows[1].to(torch.int64)
        if len(rows) > 1
        else torch.arange(x.shape[-1], device=x.device).expand(x.shape)
    )
    index = torch.where(hit, place, torch.full_like(place, torch.iinfo(torch.int64).max)).amin(-1)
    value = best.squeeze(-1).to(rows[0].dtype)
    if kind.endswith("_with_value"):
        return value.reshape(shape), index.reshape(shape)
    return value.reshape(shape) if kind.endswith("_value") else index.to(dtype).reshape(shape)


def _welford_reduce(
    x: torch.Tensor, dtype: torch.dtype, shape: List[int]
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, sum of squared deviations from the mean, and count."""
    x = x.to(dtype)
    mean = x.mean(-1, keepdim=True)
    spread = (x - mean).square_().sum(-1)
    count = torch.full_like(spread, x.shape[-1])
    return mean.reshape(shape), spread.reshape(shape), count.reshape(shape)


def _welford_combine(
    mean: torch.Tensor, m2: torch.Tensor, weight: torch.Tensor, dtype: torch.dtype, shape: List[int]
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, squared deviations and count of a union of samples; equal infinite means have no deviation."""
    mean, m2, weight = mean.to(dtype), m2.to(dtype), weight.to(dtype)
    total = weight.sum(-1)
    divisor = torch.where(total == 0, torch.ones_like(total), total)
    counted = torch.where(weight == 0, torch.zeros_like(mean), mean)
    center = (counted * weight).sum(-1) / divisor
    delta = counted - center.unsqueeze(-1)
    delta = torch.where(
        torch.isinf(counted) & (counted == center.unsqueeze(-1)), torch.zeros_like(delta), delta
    )
    spread = m2.sum(-1) + (weight * delta * delta).sum(-1)
    return center.reshape(shape), spread.reshape(shape), total.reshape(shape)


def _online_softmax(
    rows: List[torch.Tensor], dtype: torch.dtype, shape: List[int]
) -> Tuple[torch.Tensor, ...]:
    """The maximum and the sum of exp(x - maximum); the input may be partial (maximum, sum) pairs."""
    x = rows[0].to(dtype)
    counts = rows[1].to(dtype) if len(rows) > 1 else torch.ones_like(x)
    top = x.amax(-1)
    # -inf - -inf would be NaN; the sum of a row of only -inf is zero.
    shift = torch.where(torch.isinf(top) & (top < 0), torch.zeros_like(top), top).unsqueeze(-1)
    return top.reshape(shape), (torch.exp(x - shift) * counts).sum(-1).reshape(shape)


def scan(space: Space, combine: Callable[..., Any], values: Sequence[Any]) -> Tuple[torch.Tensor, ...]:
    """Computes an inclusive scan with an associative function, in log2(length) steps (Hillis and Steele)."""
    rows = [_rows(space, space.value(v)) for v in values]
    length = rows[0].shape[-1]
    step = 1
    while step < length:
        left = tuple(row[..., :-step] for row in rows)
        right = tuple(row[..., step:] for row in rows)
        joined = _combined(space, combine, left, right)
        rows = [torch.cat([row[..., :step], new.to(row.dtype)], -1) for row, new in zip(rows, joined)]
        step *= 2
    return tuple(row.reshape(space.shape) for row in rows)


def _combined(
    space: Space, combine: Callable[..., Any], left: Tuple[Any, ...], right: Tuple[Any, ...]
) -> Tuple[Any, ...]:
    """Calls the IR's combining closure, which uses `V.ops`, on tensors."""
    wrap = tuple(ops_value(v) for v in left), tuple(ops_value(v) for v in right)
    with virtualized().set_ops_handler(_Direct(space)):
        result = combine(*wrap)
    result = result if isinstance(result, tuple) else (result,)
    return tuple(getattr(v, "value", v) for v in result)


class _Direct:
    """An ops handler that computes immediately instead of recording."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: self._space.apply(name, list(args))


def sort(space: Space, values: Sequence[Any], descending: bool) -> Tuple[torch.Tensor, ...]:
    """Sorts by the first value and permutes the others alike; always stable."""
    rows = [_rows(space, space.value(v)) for v in values]
    order = torch.sort(rows[0], dim=-1, stable=True, descending=descending).indices
    return tuple(torch.gather(row, -1, order).reshape(space.shape) for row in rows)


def bucketize(
    space: Space,
    values: Any,
    boundaries: Tuple[str, Any, Any, Any],
    boundary_indices: Any,
    indexing_dtype: torch.dtype,
    right: bool,
    sorter: Optional[Tuple[str, Any]] = None,
    sorter_indices: Any = None,
) -> torch.Tensor:
    """Binary-searches a strided row of memory; `boundaries` is (name, length, total numel, stride)."""
    name = boundaries[0]
    length, stride = (int(evaluate(boundaries[n], space.size_of)) for n in (1, 3))
    x = space.value(values)
    row = space.value(boundary_indices).to(torch.int64)
    low = torch.zeros(torch.broadcast_shapes(x.shape, row.shape), dtype=torch.int64, device=x.device)
    high = torch.full_like(low, length)
    for _ in range(max(1, length).bit_length()):
        middle = torch.div(low + high, 2, rounding_mode="floor")
        open_ = middle < high
        at = torch.where(open_, middle, torch.zeros_like(middle))
        if sorter is not None:
            step = int(evaluate(sorter[1], space.size_of))
            order = space.memory(sorter[0])
            at = space.gather(order, space.value(sorter_indices) + at * step, sorter[0]).to(torch.int64)
        bound = space.gather(space.memory(name), row + at * stride, name)
        above = _at_most(bound, x) if right else ~_at_most(x, bound)
        low = torch.where(open_ & above, middle + 1, low)
        high = torch.where(open_ & ~above, middle, high)
    return low.to(indexing_dtype)


def _at_most(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a <= b where NaN is the largest value, as in torch.searchsorted."""
    return (a <= b) | (b != b)

"""The gather, scatter, scan, fill and sort units, on logical tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from accel_lab.mock.spec.kernel_spec import KernelSpec
from accel_lab.mock.spec.vocabulary import in_order

from .context import Call, Context, from_rows, logical_plan, number

Attributes = dict[str, Any]
Compute = Callable[..., Any]

aten = torch.ops.aten
#: Gathers that copy whole rows of sticks if the sticks are along the last dimension.
ROW_OPS = ("embedding", "index_select", "index")


def gather_plan(context: Context) -> list[Call]:
    """Returns the plan of a gather, scatter, scan or sort kernel. Raises SpecError."""
    spec = context.spec
    make = UNITS[spec.unit].get(spec.op)
    if make is None:
        raise context.refuse("vocabulary", f"the unit {spec.unit} has no op {spec.op!r}")
    inputs = in_order(spec)
    loads = [context.load(operand) for operand in inputs]
    function = make(spec.attributes)
    rows = context.rows(inputs[0], _picked(spec)) if spec.op in ROW_OPS else None
    if rows is None:
        return logical_plan(context, function, loads)
    table, valid = rows, inputs[0].layout.valid
    return logical_plan(context, lambda *indices: from_rows(function(table, *indices), valid), loads[1:])


def _picked(spec: KernelSpec) -> list[int]:
    """The dimensions that a gather indexes."""
    return list(spec.attributes["dims"]) if spec.op == "index" else [spec.attributes.get("dim", 0)]


def fill_plan(context: Context) -> list[Call]:
    """Returns the plan of a fill kernel. Raises SpecError."""
    spec = context.spec
    layout = spec.outputs[0].layout
    dtype, attribute = layout.number.torch_dtype, context.attribute
    if spec.op == "full":
        value = torch.tensor(number(attribute("value")), device="cpu").to(dtype).expand(layout.size)
    elif spec.op == "arange":
        start, step = attribute("start", 0), attribute("step", 1)
        count = layout.size[0]
        steps = torch.arange(count, device="cpu", dtype=torch.float64 if dtype.is_floating_point else None)
        value = (start + step * steps).to(dtype)
    else:
        raise context.refuse("vocabulary", f"the unit fill has no op {spec.op!r}")
    return logical_plan(context, lambda: value, [])


def _gather(a: Attributes) -> Compute:
    dim = a["dim"]
    return lambda x, index: torch.gather(x, dim, index.long())


def _index_select(a: Attributes) -> Compute:
    dim = a["dim"]
    return lambda x, index: torch.index_select(x, dim, index)


def _embedding(a: Attributes) -> Compute:
    return lambda weight, indices: weight.index_select(0, indices.reshape(-1)).view(
        *indices.shape, *weight.shape[1:]
    )


def _places(dims: list[int], indices: tuple[torch.Tensor, ...]) -> list[torch.Tensor | None]:
    """Index operands in ATen's form: one entry for each dimension up to the last indexed one."""
    places: list[torch.Tensor | None] = [None] * (max(dims) + 1)
    for dim, index in zip(dims, indices, strict=True):
        places[dim] = index
    return places


def _index(a: Attributes) -> Compute:
    dims = list(a["dims"])
    return lambda x, *indices: aten.index.Tensor(x, _places(dims, indices))


def _scatter(a: Attributes) -> Compute:
    """Operands: input, index, and source unless there is the attribute ``value``."""
    dim = a["dim"]
    if "value" in a:
        value = number(a["value"])
        return lambda x, index: torch.scatter(x, dim, index.long(), value)
    return lambda x, index, source: torch.scatter(x, dim, index.long(), source)


def _scatter_add(a: Attributes) -> Compute:
    dim = a["dim"]
    return lambda x, index, source: torch.scatter_add(x, dim, index.long(), source)


def _index_put(a: Attributes) -> Compute:
    """Operands: input, one index for each of ``dims``, values."""
    dims, accumulate = list(a["dims"]), bool(a.get("accumulate", False))

    def put(x: torch.Tensor, *rest: torch.Tensor) -> Any:
        return aten.index_put.default(x, _places(dims, rest[:-1]), rest[-1], accumulate)

    return put


def _embedding_backward(a: Attributes) -> Compute:
    weights, padding = a["num_weights"], a.get("padding_idx", -1)

    def backward(grad: torch.Tensor, indices: torch.Tensor) -> Any:
        return aten.embedding_dense_backward.default(
            grad.contiguous(), indices, weights, -1 if padding is None else padding, False
        )

    return backward


def _index_add(a: Attributes) -> Compute:
    dim, alpha = a["dim"], number(a.get("alpha", 1))
    return lambda x, index, source: torch.index_add(x, dim, index, source, alpha=alpha)


def _cumsum(a: Attributes) -> Compute:
    dim = a["dim"]
    return lambda x: torch.cumsum(x, dim)


def _cumprod(a: Attributes) -> Compute:
    dim = a["dim"]
    return lambda x: torch.cumprod(x, dim)


def _topk(a: Attributes) -> Compute:
    k, dim = a["k"], a.get("dim", -1)
    largest, in_order = bool(a.get("largest", True)), bool(a.get("sorted", True))
    return lambda x: torch.topk(x, k, dim, largest, in_order)


def _sort(a: Attributes) -> Compute:
    dim, descending, stable = a.get("dim", -1), bool(a.get("descending", False)), bool(a.get("stable", False))
    return lambda x: torch.sort(x, stable=stable, dim=dim, descending=descending)


UNITS: dict[str, dict[str, Callable[[Attributes], Compute]]] = {
    "gather": {
        "gather": _gather,
        "index_select": _index_select,
        "embedding": _embedding,
        "index": _index,
    },
    "scatter": {
        "scatter": _scatter,
        "scatter_add": _scatter_add,
        "index_put": _index_put,
        "embedding_backward": _embedding_backward,
        "index_add": _index_add,
    },
    "scan": {"cumsum": _cumsum, "cumprod": _cumprod},
    "sort": {"topk": _topk, "sort": _sort},
}

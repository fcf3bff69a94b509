"""Decompositions of the CPU's fused attention: forward with the true logsumexp, and backward.

torch's own decomposition returns the attention weights in place of the logsumexp, which is enough for
inference. In a training step the backward operator gets them and computes wrong gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

FORWARD = "_scaled_dot_product_flash_attention_for_cpu"
BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"


def table() -> dict[Any, Callable[..., Any]]:
    """Returns the decompositions, by operator overload, of the operators that this torch build has."""
    found = {}
    for name, function in ((FORWARD, forward), (BACKWARD, backward)):
        packet = getattr(torch.ops.aten, name, None)
        if packet is not None:
            found[packet.default] = function
    return found


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Returns the attention output and the logsumexp of each row; NotImplemented with dropout."""
    if dropout_p:
        return NotImplemented
    q, k, v = (_wide(tensor) for tensor in (query, key, value))
    k, v = _for_all_heads(k, q.shape[1]), _for_all_heads(v, q.shape[1])
    scores = _scores(q, k, is_causal, attn_mask, scale)
    greatest = scores.amax(-1, keepdim=True)
    greatest = torch.where(greatest == -math.inf, 0.0, greatest)  # fully masked rows
    weights = torch.exp(scores - greatest)
    total = weights.sum(-1, keepdim=True)
    result = torch.matmul(weights, v) / torch.where(total == 0, 1.0, total)
    logsumexp = (greatest + torch.log(total)).squeeze(-1)
    return _laid_as(result.to(query.dtype), query), logsumexp


def backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    """Returns the gradients of query, key and value; recomputes the weights from the logsumexp.

    NotImplemented with dropout.
    """
    if dropout_p:
        return NotImplemented
    grad, q, k, v, result = (_wide(tensor) for tensor in (grad_out, query, key, value, out))
    heads, factor = q.shape[1], _factor(query, scale)
    k, v = _for_all_heads(k, heads), _for_all_heads(v, heads)
    sums = logsumexp.unsqueeze(-1)
    weights = torch.exp(_scores(q, k, is_causal, attn_mask, scale) - sums)
    weights = torch.where(sums == -math.inf, 0.0, weights)
    of_weights = torch.matmul(grad, v.transpose(-1, -2))
    of_scores = weights * (of_weights - (grad * result).sum(-1, keepdim=True)) * factor
    gradients = (
        (torch.matmul(of_scores, k), query),
        (_for_own_heads(torch.matmul(of_scores.transpose(-1, -2), q), key.shape[1]), key),
        (_for_own_heads(torch.matmul(weights.transpose(-1, -2), grad), value.shape[1]), value),
    )
    return tuple(
        found.to(like.dtype).transpose(1, 2).contiguous().transpose(1, 2) for found, like in gradients
    )


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Converts halves to fp32: the fused kernel computes its scores in fp32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _factor(query: torch.Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _scores(
    q: torch.Tensor, k: torch.Tensor, is_causal: bool, mask: torch.Tensor | None, scale: float | None
) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-1, -2)) * _factor(q, scale)
    if is_causal:
        rows = torch.arange(q.shape[-2], device=q.device).unsqueeze(-1)
        columns = torch.arange(k.shape[-2], device=q.device)
        scores = torch.where(columns <= rows, scores, -math.inf)
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return torch.where(mask, scores, -math.inf)
    return scores + mask.to(scores.dtype)


def _for_all_heads(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Repeats keys or values for all query heads (grouped-query attention)."""
    count, own, *rest = tensor.shape
    if own == heads:
        return tensor
    return tensor.unsqueeze(2).expand(count, own, heads // own, *rest).reshape(count, heads, *rest)


def _for_own_heads(gradient: torch.Tensor, own: int) -> torch.Tensor:
    """Sums a gradient over the query heads that share a key or value head."""
    count, heads, *rest = gradient.shape
    return gradient if own == heads else gradient.reshape(count, own, heads // own, *rest).sum(2)


def _laid_as(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns the tensor in the memory order of ``like``: the fused kernel's result has that of the query."""
    strides = like.stride()
    order = sorted(range(like.dim()), key=lambda dim: (-strides[dim], dim))
    back = [order.index(dim) for dim in range(like.dim())]
    return tensor.permute(order).contiguous().permute(back)

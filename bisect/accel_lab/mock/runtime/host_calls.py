"""Runs operators on the host, and converts host tensors to the traced strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from accel_lab.mock.faults import active
from accel_lab.mock.ir.program import HostCall, Ref


def run_host_call(step: HostCall, resolve: Callable[[Ref], Any], front_end: str) -> list[Any]:
    """Runs one host call; returns one result for each of its names."""
    args, kwargs = tree_map(
        lambda leaf: resolve(leaf) if isinstance(leaf, Ref) else leaf,
        (step.args, step.kwargs),
        is_leaf=lambda leaf: isinstance(leaf, Ref),
    )
    result = step.target(*args, **kwargs)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if step.reason and front_end == "main" and active("fallback_zeros"):
        # Fault; the reference front end's own fallbacks are not affected.
        results = [torch.zeros_like(r) if isinstance(r, torch.Tensor) else r for r in results]
    if step.names and len(step.names) != len(results):
        raise RuntimeError(f"{step.target} gave {len(results)} results for {len(step.names)} names")
    return results


def restrided(tensor: torch.Tensor, stride: tuple[int, ...] | None) -> torch.Tensor:
    """Returns the tensor with these strides: itself if it has them, else a copy."""
    if stride is None or has_strides(tensor, stride):
        return tensor
    return filled(strided_like(tensor, stride), tensor)


def has_strides(tensor: torch.Tensor, stride: tuple[int, ...]) -> bool:
    """Whether a tensor has these strides, ignoring dimensions of extent 1."""
    return 0 in tensor.shape or all(
        n == 1 or have == want for n, have, want in zip(tensor.shape, tensor.stride(), stride, strict=True)
    )


def strided_like(tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """Returns a new, uninitialized tensor of the same size with other strides, which may be 0."""
    return torch.empty_strided(tuple(tensor.shape), stride, dtype=tensor.dtype, device="cpu")


def filled(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Copies ``source`` to ``target``, which it returns; values repeat along strides of 0."""
    once, values = target, source
    for dim, (extent, step) in enumerate(zip(target.shape, target.stride(), strict=True)):
        if step == 0 and extent > 1:
            once, values = once.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    once.copy_(values)
    return target

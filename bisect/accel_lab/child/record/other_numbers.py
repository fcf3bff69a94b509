"""Gives a region equally valid numbers: drawn from another seed, or rounded the other way.

A script that fails with these uncompiled refuses what any compiler may do. Equal states of the generator
still give equal numbers, and what belongs together (a mask and its gradient) still does: only a check of the
very numbers can tell.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Iterator, List, Set

import torch
from torch.utils._pytree import tree_flatten


@contextlib.contextmanager
def other_random(number: int) -> Iterator[None]:
    """Random numbers of another stream, which depends on the generator's state and on ``number`` only."""
    generators = _generators()
    states = [generator.get_state() for generator in generators]
    started = []
    for generator, state in zip(generators, states):
        text = state.numpy().tobytes() + str(number).encode()
        generator.manual_seed(int.from_bytes(hashlib.sha256(text).digest()[:6], "big"))
        started.append(generator.get_state())
    try:
        yield
    finally:
        for generator, before, state in zip(generators, started, states):
            drew = not torch.equal(before, generator.get_state())
            generator.set_state(state)
            if drew:  # as compiled code does: the state moves on by what seeds its own numbers
                torch.rand(1, generator=generator, device=generator.device)


def _generators() -> List[Any]:
    found = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found += list(torch.cuda.default_generators)
    return found


def round_otherwise(result: Any, number: int, inputs: Any) -> None:
    """Move each element of the tensors returned by one unit in the last place, up or down; gradients as well.

    What shares memory with ``inputs`` is left as it is: it is not the region's to round.
    """
    known: Set[int] = {_memory(value) for value in inputs if isinstance(value, torch.Tensor)}
    for turn, value in enumerate(tree_flatten(result)[0]):
        if type(value) is not torch.Tensor or not value.dtype.is_floating_point or not value.numel():
            continue
        if value.layout is not torch.strided or 0 in value.stride() or _memory(value) in known:
            continue
        # Not by an operator on the tensor itself: what autograd has saved must not count as written.
        value.data.copy_(_moved(value.detach(), number + turn))
        if value.requires_grad:
            value.register_hook(lambda grad, by=number + turn: _moved(grad, by))


def _moved(value: Any, number: int) -> Any:
    eps = torch.finfo(value.dtype).eps
    place = torch.arange(value.numel(), device=value.device).reshape(value.shape)
    up = ((place * 2654435761 + number * 40503) // 65536) % 2 == 0
    wide = value.to(torch.float64)
    return torch.where(up, wide * (1 + eps), wide * (1 - eps)).to(value.dtype)


def _memory(value: Any) -> int:
    try:
        return int(value.untyped_storage().data_ptr())
    except Exception:  # no storage of its own
        return 0

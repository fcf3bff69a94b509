"""Changes a region's numbers within what a compiler may do: another random stream, or other rounding.

A script that fails this way uncompiled checks for more than any compiler guarantees. Equal generator states
still give equal numbers, and a dropout mask still matches its gradient, so only a check for exact values
can fail.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Iterator, List, Set

import torch
from torch.utils._pytree import tree_flatten


@contextlib.contextmanager
def other_random(number: int) -> Iterator[None]:
    """Reseeds torch's generators inside the context, from their states and ``number``."""
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
            if drew:  # compiled code also advances the state, by the draw that seeds its own numbers
                torch.rand(1, generator=generator, device=generator.device)


def _generators() -> List[Any]:
    found = [torch.default_generator]
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found += list(torch.cuda.default_generators)
    return found


def round_otherwise(result: Any, number: int, inputs: Any) -> None:
    """Scales each element of the returned tensors, and of their gradients, by ``1 + eps`` or ``1 - eps``.

    ``eps`` is the machine epsilon of the dtype. Tensors that share memory with ``inputs`` are not changed.
    """
    known: Set[int] = {_memory(value) for value in inputs if isinstance(value, torch.Tensor)}
    for turn, value in enumerate(tree_flatten(result)[0]):
        if type(value) is not torch.Tensor or not value.dtype.is_floating_point or not value.numel():
            continue
        if value.layout is not torch.strided or 0 in value.stride() or _memory(value) in known:
            continue
        # Through ``.data``, so that the version counter does not change: autograd may have saved the tensor.
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

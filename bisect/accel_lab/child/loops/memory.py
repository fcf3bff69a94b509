"""Reads and writes the flat memory of the loop IR at computed offsets, with bounds checks."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional

import torch

from .nest_trace import NotInterpretable
from .pointwise import compute_dtype


class Strided(NamedTuple):
    """Offsets that are linear in the loop variables, so that a view can replace a gather."""

    shape: List[int]
    strides: List[int]
    offset: int

    def inside(self, length: int) -> bool:
        """Whether all offsets are within a storage of `length` elements."""
        spans = [stride * (size - 1) for stride, size in zip(self.strides, self.shape)]
        low = self.offset + sum(span for span in spans if span < 0)
        high = self.offset + sum(span for span in spans if span > 0)
        return low >= 0 and high < length

    def one_to_one(self) -> bool:
        """Whether the strides show that no two points share an address; may be False without need."""
        extent = 1
        for stride, size in sorted(zip(self.strides, self.shape)):
            if size > 1:
                if stride < extent:
                    return False
                extent = stride * (size - 1) + extent
        return True

    def of(self, flat: torch.Tensor) -> Optional[torch.Tensor]:
        """Returns the view of `flat`; None if strides are negative or offsets out of bounds."""
        if any(stride < 0 for stride in self.strides) or not self.inside(flat.numel()):
            return None
        return flat.as_strided(self.shape, self.strides, flat.storage_offset() + self.offset)


def gather(flat: torch.Tensor, where: torch.Tensor, name: str, mask: Optional[torch.Tensor]) -> torch.Tensor:
    """Returns the elements at the offsets `where`; arbitrary values where the mask is false.

    Raises IndexError for an offset outside the storage.
    """
    if mask is not None:
        where = torch.where(mask, where, torch.zeros_like(where))
        if flat.numel() == 0 and not bool(mask.any()):
            return torch.zeros(where.shape, dtype=compute_dtype(flat.dtype), device=flat.device)
    try:
        taken = torch.index_select(storable(flat), 0, where.reshape(-1))
    except (IndexError, RuntimeError) as error:
        raise (outside("reads", name, where, flat) or error) from error
    return taken.view(flat.dtype).reshape(where.shape).to(compute_dtype(flat.dtype))


def scatter(
    flat: torch.Tensor, where: torch.Tensor, what: torch.Tensor, name: str, mode: Optional[str]
) -> None:
    """Writes elements at offsets in row-major order, or combines them with the memory (atomic modes).

    Raises IndexError for an offset outside the storage.
    """
    problem = outside("writes", name, where, flat)
    if problem is not None:
        raise problem
    where, what = where.reshape(-1), what.reshape(-1).to(flat.dtype)
    if mode is None:
        storable(flat)[where] = storable(what)
    elif mode == "atomic_add":
        flat.index_put_((where,), what, accumulate=True)
    elif mode in ("atomic_max", "atomic_min"):
        flat.scatter_reduce_(0, where, what, reduce="amax" if mode == "atomic_max" else "amin")
    else:
        raise NotInterpretable("store mode %r" % mode)


def storable(flat: torch.Tensor) -> torch.Tensor:
    """Returns a view in a dtype of the same size that every indexing kernel supports."""
    if flat.dtype in _INDEXABLE:
        return flat
    return flat.view(_SAME_SIZE[flat.element_size()])


_SAME_SIZE: Dict[int, torch.dtype] = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

_INDEXABLE = frozenset(
    (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
)


def outside(verb: str, name: str, where: torch.Tensor, flat: torch.Tensor) -> Optional[Exception]:
    """Returns the error for an access outside the storage, or None if all are inside."""
    if where.numel() == 0:
        return None
    low, high = (int(v) for v in torch.aminmax(where))
    if low >= 0 and high < flat.numel():
        return None
    return IndexError(
        "the loop IR %s %s at offsets %d to %d, but its storage has %d elements"
        % (verb, name, low, high, flat.numel())
    )

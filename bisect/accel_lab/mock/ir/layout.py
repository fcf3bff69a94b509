"""Where each element of a tensor lies on the device: sticks along one dimension, padded to whole sticks.

A tensor of size (512, 256) in fp16 is (4, 512, 64) on the device: the dimension that is last in ``order``
is cut into sticks, the number of sticks stands before the second last. Permuting a tensor permutes
``order`` and moves no byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from accel_lab.mock.device import FORMATS, STICK_BYTES, Format


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of one device tensor.

    ``size`` is the logical size as torch sees it; ``order`` names the logical dimensions from the outermost
    to the stick dimension; ``format`` is a name of :data:`accel_lab.mock.device.FORMATS`. A tensor of no
    dimension is one stick with one valid lane. Raises ValueError where ``order`` is not a permutation.
    """

    size: tuple[int, ...]
    order: tuple[int, ...]
    format: str

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.size))):
            raise ValueError(f"order {self.order} is not a permutation of the dimensions of {self.size}")

    @property
    def number(self) -> Format:
        """The number format."""
        return FORMATS[self.format]

    @property
    def stick_dim(self) -> int | None:
        """The logical dimension that lies along the sticks; None without dimensions."""
        return self.order[-1] if self.order else None

    @property
    def lanes(self) -> int:
        """Elements in a stick."""
        return self.number.lanes

    @property
    def valid(self) -> int:
        """The logical extent along the sticks."""
        return self.size[self.order[-1]] if self.order else 1

    @property
    def sticks(self) -> int:
        """Sticks along the stick dimension."""
        return -(-self.valid // self.lanes)

    @property
    def padding(self) -> int:
        """Lanes of the last stick that hold no element."""
        return self.sticks * self.lanes - self.valid

    @property
    def device_size(self) -> tuple[int, ...]:
        """The size on the device, in elements, outermost first: (..., sticks, second last, lanes)."""
        outer = [self.size[d] for d in self.order[:-1]]
        if not outer:
            return (self.sticks, self.lanes)
        return (*outer[:-1], self.sticks, outer[-1], self.lanes)

    @property
    def dim_map(self) -> tuple[int, ...]:
        """For each device dimension the logical dimension that it is cut from; -1 without dimensions."""
        if not self.order:
            return (-1, -1)
        outer, stick = list(self.order[:-1]), self.order[-1]
        if not outer:
            return (stick, stick)
        return (*outer[:-1], stick, outer[-1], stick)

    @property
    def device_strides(self) -> tuple[int, ...]:
        """Strides of ``device_size`` in elements: the device tensor is dense."""
        strides, step = [], 1
        for extent in reversed(self.device_size):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    @property
    def elements(self) -> int:
        """Elements on the device, padding included."""
        return math.prod(self.device_size)

    @property
    def bytes(self) -> int:
        """Bytes on the device, always whole sticks."""
        return self.elements * self.number.word_bytes

    def stride_of(self, dim: int) -> tuple[int, int]:
        """``(stride between sticks, stride between lanes)`` of the stick dimension, ``(stride, 0)`` of
        another."""
        positions = [n for n, logical in enumerate(self.dim_map) if logical == dim]
        strides = self.device_strides
        if dim == self.stick_dim:
            return strides[positions[0]], strides[positions[1]]
        return strides[positions[0]], 0

    def permuted(self, dims: tuple[int, ...]) -> Layout:
        """The layout of ``tensor.permute(dims)`` over the same bytes."""
        return Layout(
            size=tuple(self.size[d] for d in dims),
            order=tuple(dims.index(d) for d in self.order),
            format=self.format,
        )

    def to_json(self) -> dict[str, Any]:
        """``{"size", "order", "format", "device_size", "dim_map", "padding"}``; the last three are
        derived."""
        return {
            "size": list(self.size),
            "order": list(self.order),
            "format": self.format,
            "device_size": list(self.device_size),
            "dim_map": list(self.dim_map),
            "padding": self.padding,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Layout:
        """The layout that :meth:`to_json` wrote."""
        return cls(size=tuple(data["size"]), order=tuple(data["order"]), format=data["format"])


def row_major(size: tuple[int, ...], format_name: str) -> Layout:
    """The default layout: the last dimension along the sticks."""
    return Layout(size=tuple(size), order=tuple(range(len(size))), format=format_name)


assert STICK_BYTES % max(entry.word_bytes for entry in FORMATS.values()) == 0

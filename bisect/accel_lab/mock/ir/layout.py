"""Device layouts: one dimension of a tensor is stored in sticks, padded to whole sticks.

An fp16 tensor of size (512, 256) is (4, 512, 64) on the device. The last dimension in ``order`` is cut into
sticks; the stick count comes before the second last dimension. A permutation of the tensor permutes ``order``
and moves no bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from accel_lab.mock.device import FORMATS, STICK_BYTES, Format


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of one device tensor.

    ``size`` is the logical size in torch. ``order`` lists the logical dimensions from the outermost to the
    stick dimension. ``format`` is a name in :data:`accel_lab.mock.device.FORMATS`. A 0-d tensor is one stick
    with one valid lane. Raises ValueError if ``order`` is not a permutation.
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
        """The logical dimension along the sticks; None for a 0-d tensor."""
        return self.order[-1] if self.order else None

    @property
    def lanes(self) -> int:
        """The number of elements in a stick."""
        return self.number.lanes

    @property
    def valid(self) -> int:
        """The logical extent along the sticks."""
        return self.size[self.order[-1]] if self.order else 1

    @property
    def sticks(self) -> int:
        """The number of sticks along the stick dimension."""
        return -(-self.valid // self.lanes)

    @property
    def padding(self) -> int:
        """The number of unused lanes in the last stick."""
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
        """The logical dimension of each device dimension; -1 for a 0-d tensor."""
        if not self.order:
            return (-1, -1)
        outer, stick = list(self.order[:-1]), self.order[-1]
        if not outer:
            return (stick, stick)
        return (*outer[:-1], stick, outer[-1], stick)

    @property
    def device_strides(self) -> tuple[int, ...]:
        """The strides of the dense device tensor, in elements."""
        strides, step = [], 1
        for extent in reversed(self.device_size):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    @property
    def elements(self) -> int:
        """The number of elements on the device, including padding."""
        return math.prod(self.device_size)

    @property
    def bytes(self) -> int:
        """The number of bytes on the device, always whole sticks."""
        return self.elements * self.number.word_bytes

    def stride_of(self, dim: int) -> tuple[int, int]:
        """Returns the strides in elements: (stick, lane) of the stick dimension, else ``(stride, 0)``."""
        positions = [n for n, logical in enumerate(self.dim_map) if logical == dim]
        strides = self.device_strides
        if dim == self.stick_dim:
            return strides[positions[0]], strides[positions[1]]
        return strides[positions[0]], 0

    def permuted(self, dims: tuple[int, ...]) -> Layout:
        """Returns the layout of ``tensor.permute(dims)``, over the same bytes."""
        return Layout(
            size=tuple(self.size[d] for d in dims),
            order=tuple(dims.index(d) for d in self.order),
            format=self.format,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns size, order and format, and the derived device_size, dim_map and padding."""
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
        """Reads what :meth:`to_json` wrote."""
        return cls(size=tuple(data["size"]), order=tuple(data["order"]), format=data["format"])


def row_major(size: tuple[int, ...], format_name: str) -> Layout:
    """Returns the default layout, with the last dimension along the sticks."""
    return Layout(size=tuple(size), order=tuple(range(len(size))), format=format_name)


assert STICK_BYTES % max(entry.word_bytes for entry in FORMATS.values()) == 0

"""Views of a layout's bytes: the full sticks, the partly filled last stick, and the padding lanes.

The transfer and the units on logical tensors use this mapping; :mod:`accel_lab.mock.runtime.memory` defines
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.runtime.memory import Region, padding_value


@dataclass(frozen=True, kw_only=True)
class StickViews:
    """Views of one tensor's bytes, with dimensions in the layout's order; None for empty parts.

    ``whole`` is (outer..., sticks, lanes). ``tail`` is (outer..., valid lanes of the last stick), ``padding``
    (outer..., other lanes of the last stick).
    """

    layout: Layout
    whole: torch.Tensor | None
    tail: torch.Tensor | None
    padding: torch.Tensor | None

    def in_layout_order(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a logical tensor permuted to the layout's order; a 0-d one as 1-d."""
        return tensor.permute(self.layout.order) if self.layout.order else tensor.reshape(1)

    def logical(self, lined_up: torch.Tensor) -> torch.Tensor:
        """Inverts :meth:`in_layout_order`, without a copy."""
        order = self.layout.order
        return lined_up.permute([order.index(d) for d in range(len(order))]) if order else lined_up[0]

    def store(self, tensor: torch.Tensor) -> None:
        """Copies a logical tensor of the layout's size to the valid lanes, cast to the format."""
        lined_up = self.in_layout_order(tensor)
        if self.whole is not None:
            sticks, lanes = self.whole.shape[-2:]
            held = lined_up[..., : sticks * lanes] if self.tail is not None else lined_up
            self.whole.copy_(held.unflatten(-1, (sticks, lanes)))
        if self.tail is not None:
            rest = self.tail.shape[-1]
            self.tail.copy_(lined_up[..., lined_up.shape[-1] - rest :])

    def load(self, dtype: torch.dtype) -> torch.Tensor:
        """Returns a copy of the logical tensor in a dtype, dense in the layout's dimension order."""
        layout = self.layout
        lined_up = torch.empty([layout.size[d] for d in layout.order] or [1], dtype=dtype, device="cpu")
        if self.whole is not None:
            sticks, lanes = self.whole.shape[-2:]
            target = lined_up[..., : sticks * lanes] if self.tail is not None else lined_up
            target.unflatten(-1, (sticks, lanes)).copy_(self.whole)
        if self.tail is not None:
            rest = self.tail.shape[-1]
            lined_up[..., lined_up.shape[-1] - rest :].copy_(self.tail)
        return self.logical(lined_up)


def stick_views(region: Region, layout: Layout, address: int) -> StickViews:
    """Returns the views of the tensor at an address; raises DeviceAddressError if out of bounds."""
    if not layout.elements:
        return StickViews(layout=layout, whole=None, tail=None, padding=None)
    dtype, word = layout.number.torch_dtype, layout.number.word_bytes
    outer = [layout.size[d] for d in layout.order[:-1]]
    steps = [layout.stride_of(d)[0] for d in layout.order[:-1]]
    lanes = layout.lanes
    between = layout.stride_of(layout.order[-1])[0] if layout.order else lanes
    full, rest = divmod(layout.valid, lanes)

    def view(start: int, size: list[int], strides: list[int]) -> torch.Tensor:
        return region.typed(address + start * word, dtype, [*outer, *size], [*steps, *strides])

    return StickViews(
        layout=layout,
        whole=view(0, [full, lanes], [between, 1]) if full else None,
        tail=view(full * between, [rest], [1]) if rest else None,
        padding=view(full * between + rest, [lanes - rest], [1]) if rest else None,
    )


def strided_view(region: Region, layout: Layout, address: int) -> torch.Tensor | None:
    """Returns the logical tensor as one strided view; None if its sticks are not adjacent."""
    if not layout.order:
        return region.typed(address, layout.number.torch_dtype, (), ())
    between, _ = layout.stride_of(layout.order[-1])
    if layout.sticks > 1 and between != layout.lanes:
        return None
    strides = [1 if d == layout.stick_dim else layout.stride_of(d)[0] for d in range(len(layout.size))]
    return region.typed(address, layout.number.torch_dtype, layout.size, strides)


def fill_padding(views: StickViews, padding: str, poison: bool) -> None:
    """Fills the padding lanes with the constant of a padding state, or with poison."""
    if views.padding is not None:
        constant = padding_value(padding, views.padding.dtype, poison)
        if constant is not None:
            views.padding.fill_(constant)

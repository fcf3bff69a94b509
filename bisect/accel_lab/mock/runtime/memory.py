"""The device's memory: flat bytes, an allocator, bounds-checked views, and the definition of layouts.

:meth:`Memory.write` and :meth:`Memory.read` define what a layout means. The transfer and the simulator have
faster implementations, which must agree with them.
"""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Sequence

import torch

from accel_lab.mock.device import STICK_BYTES, Device
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.sizes import whole_sticks

# Python defines the flag only in some versions; the fallback is the Linux kernel's value.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform.startswith("linux") else 0)


class OutOfDeviceMemory(MemoryError):
    """Raised if an allocation does not fit; the message has the requested and the used bytes."""


class DeviceAddressError(IndexError):
    """Raised for an address, size or stride outside the memory or misaligned for the format."""


def anonymous(count: int) -> torch.Tensor:
    """Returns ``count`` lazily mapped zero bytes as a uint8 tensor. Raises OutOfDeviceMemory."""
    if count == 0:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    try:
        if sys.platform == "win32":
            mapping = mmap.mmap(-1, count)
        else:
            mapping = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    except (OSError, ValueError, OverflowError) as error:
        raise OutOfDeviceMemory(
            f"the host cannot map {count} bytes of device memory: {error}; set MOCK_MAX_MEMORY lower"
        ) from error
    return torch.frombuffer(mapping, dtype=torch.uint8)


class Region:
    """A range of device bytes that can be viewed as typed, strided tensors."""

    def __init__(self, count: int) -> None:
        self.size = whole_sticks(count)
        with torch.inference_mode(False):
            self.data = anonymous(self.size)
        self._bases: dict[torch.dtype, torch.Tensor] = {}

    def typed(
        self, address: int, dtype: torch.dtype, size: Sequence[int], strides: Sequence[int]
    ) -> torch.Tensor:
        """Returns a view at byte ``address``; sizes and strides in elements. Raises DeviceAddressError."""
        if address % dtype.itemsize:
            raise DeviceAddressError(f"address {address} is not aligned for {dtype}")
        if len(size) != len(strides) or min(strides, default=0) < 0 or min(size, default=0) < 0:
            raise DeviceAddressError(f"no view has size {tuple(size)} with strides {tuple(strides)}")
        if 0 in size:
            start, end = 0, 0
        else:
            start = address
            end = address + dtype.itemsize * (
                1 + sum((n - 1) * step for n, step in zip(size, strides, strict=True))
            )
        if address < 0 or end > self.size:
            raise DeviceAddressError(f"bytes {address} to {end} are outside the region of {self.size} bytes")
        with torch.inference_mode(False):
            base = self._bases.get(dtype)
            if base is None:
                base = self._bases[dtype] = self.data.view(dtype)
            return torch.as_strided(base, tuple(size), tuple(strides), start // dtype.itemsize)

    def poison(self, address: int, count: int) -> None:
        """Fills ``count`` bytes with 0xff: floats read as NaN, integers as -1 or their maximum."""
        if count:
            self.typed(address, torch.uint8, (count,), (1,)).fill_(255)


class Memory(Region):
    """The device's main memory, with a best-fit allocator in whole sticks."""

    def __init__(self, device: Device) -> None:
        super().__init__(device.memory_bytes // STICK_BYTES * STICK_BYTES)
        self.device = device
        self.in_use = 0
        self.peak = 0
        self._taken: dict[int, int] = {}
        self._holes: list[tuple[int, int]] = [(0, self.size)] if self.size else []

    def allocate(self, count: int) -> int:
        """Allocates ``count`` bytes, aligned to a stick; returns the address. Raises OutOfDeviceMemory."""
        wanted = max(whole_sticks(count), STICK_BYTES)
        fitting = [hole for hole in self._holes if hole[1] >= wanted]
        if not fitting:
            raise OutOfDeviceMemory(
                f"{count} bytes do not fit: {self.in_use} of the device's {self.size} bytes are in use"
            )
        address, room = min(fitting, key=lambda hole: (hole[1], hole[0]))
        place = self._holes.index((address, room))
        self._holes[place : place + 1] = [(address + wanted, room - wanted)] if room > wanted else []
        self._taken[address] = wanted
        self.in_use += wanted
        self.peak = max(self.peak, self.in_use)
        return address

    def free(self, address: int) -> None:
        """Frees an allocation. Raises KeyError if there is none at this address."""
        room = self._taken.pop(address)
        self.in_use -= room
        merged: list[tuple[int, int]] = []
        for start, length in sorted([*self._holes, (address, room)]):
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self._holes = merged

    def write(self, layout: Layout, address: int, tensor: torch.Tensor, padding: str = "undefined") -> None:
        """Writes a logical tensor, and the constant of state ``padding`` to the padding lanes.

        Undefined padding is poisoned if the device does so, else left as it is. Raises ValueError if tensor
        and layout differ in size or dtype.
        """
        check_match(layout, tensor)
        if not layout.elements:
            return
        lined_up = tensor.detach().permute(layout.order).reshape(*outer_size(layout), layout.valid)
        sticks = self.typed(
            address, layout.number.torch_dtype, layout.device_size, layout.device_strides
        ).movedim(-3 if len(layout.order) > 1 else -2, -2)
        constant = padding_value(padding, layout.number.torch_dtype, self.device.poison)
        lanes = layout.lanes
        for stick in range(layout.sticks):
            held = lined_up[..., stick * lanes : (stick + 1) * lanes]
            target = sticks[..., stick, :]
            target[..., : held.shape[-1]].copy_(held)
            if constant is not None:
                target[..., held.shape[-1] :].fill_(constant)

    def read(self, layout: Layout, address: int) -> torch.Tensor:
        """Returns a contiguous copy of the logical tensor at an address."""
        dtype = layout.number.torch_dtype
        if not layout.elements:
            return torch.empty(layout.size, dtype=dtype, device="cpu")
        sticks = self.typed(address, dtype, layout.device_size, layout.device_strides).movedim(
            -3 if len(layout.order) > 1 else -2, -2
        )
        lined_up = torch.cat([sticks[..., stick, :] for stick in range(layout.sticks)], dim=-1)
        lined_up = lined_up[..., : layout.valid].reshape([layout.size[d] for d in layout.order])
        back = [layout.order.index(d) for d in range(len(layout.order))]
        return lined_up.permute(back).clone(memory_format=torch.contiguous_format)


def outer_size(layout: Layout) -> tuple[int, ...]:
    """Returns the extents of the dimensions before the stick dimension, in the layout's order."""
    return tuple(layout.size[d] for d in layout.order[:-1])


def check_match(layout: Layout, tensor: torch.Tensor) -> None:
    """Raises ValueError if a host tensor has another size or dtype than a layout."""
    if tuple(tensor.shape) != layout.size or tensor.dtype != layout.number.torch_dtype:
        raise ValueError(
            f"a tensor of size {tuple(tensor.shape)} and dtype {tensor.dtype} is not what the layout holds: "
            f"size {layout.size}, {layout.format}"
        )


def padding_value(padding: str, dtype: torch.dtype, poison: bool) -> float | int | bool | None:
    """Returns the constant of a padding state; None to leave the padding. Raises ValueError if unknown."""
    if padding == "zero":
        return 0
    if padding == "one":
        return 1
    if padding in ("lowest", "highest"):
        return extreme(dtype, highest=padding == "highest")
    if padding != "undefined":
        raise ValueError(f"no padding state is called {padding!r}")
    if not poison:
        return None
    return math.nan if dtype.is_floating_point else extreme(dtype, highest=True)


def extreme(dtype: torch.dtype, *, highest: bool) -> float | int | bool:
    """Returns the highest or lowest number of a dtype; infinite for floats."""
    if dtype.is_floating_point:
        return math.inf if highest else -math.inf
    if dtype == torch.bool:
        return highest
    info = torch.iinfo(dtype)
    return int(info.max if highest else info.min)

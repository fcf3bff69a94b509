"""The mock device's memory: the allocator, the bounds, and what a layout means in bytes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accel_lab.mock.device import FORMATS, Device  # noqa: E402
from accel_lab.mock.ir.layout import Layout, row_major  # noqa: E402
from accel_lab.mock.runtime.memory import DeviceAddressError, Memory, OutOfDeviceMemory, padding_value  # noqa: E402
from mock_specs import EXTENTS, SMALL, all_orders, values_of  # noqa: E402

pytestmark = pytest.mark.torch


def tiny(sticks: int) -> Memory:
    return Memory(Device(memory_bytes=sticks * 128))


def test_a_layout_means_sticks_before_the_second_last_dimension() -> None:
    """Written out by hand: (2, 3, 5) in int64 has sticks of 16 lanes, so every row is one padded stick."""
    memory = Memory(SMALL)
    tensor = torch.arange(2 * 3 * 20).view(2, 3, 20)
    memory.write(row_major((2, 3, 20), "int64"), 0, tensor, "zero")
    held = memory.typed(0, torch.int64, (2, 2, 3, 16), (96, 48, 16, 1))
    for a in range(2):
        for b in range(3):
            for c in range(20):
                assert held[a, c // 16, b, c % 16] == tensor[a, b, c]
    assert held[:, 1, :, 4:].abs().sum() == 0
    assert memory.typed(0, torch.int64, (2 * 2 * 3 * 16 + 1,), (1,))[-1] == 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_is_written_is_read(data: Any) -> None:
    size = data.draw(st.lists(st.sampled_from((0, *EXTENTS)), max_size=3))
    if torch.Size(size).numel() > 50_000:
        size = size[:2]
    order = data.draw(st.permutations(range(len(size))))
    format_name = data.draw(st.sampled_from(sorted(FORMATS)))
    layout = Layout(size=tuple(size), order=tuple(order), format=format_name)
    memory = Memory(SMALL)
    memory.poison(0, layout.bytes + 256)
    tensor = values_of(size, format_name)
    memory.write(layout, 128, tensor)
    assert torch.equal(memory.read(layout, 128), tensor)
    outside = memory.typed(0, torch.uint8, (2, 128), (128 + layout.bytes, 1))
    assert (outside == 255).all(), "bytes beside the tensor were written"


@pytest.mark.parametrize("order", all_orders(3))
def test_a_permuted_layout_reads_the_permuted_tensor(order: tuple[int, ...]) -> None:
    memory = Memory(SMALL)
    tensor = values_of((3, 5, 70), "fp16")
    layout = row_major((3, 5, 70), "fp16")
    memory.write(layout, 0, tensor)
    assert torch.equal(memory.read(layout.permuted(order), 0), tensor.permute(order))


@pytest.mark.parametrize("format_name", sorted(FORMATS))
@pytest.mark.parametrize("padding", ["undefined", "zero", "one", "lowest", "highest"])
def test_padding_holds_what_is_declared(format_name: str, padding: str) -> None:
    memory = Memory(SMALL)
    layout = row_major((2, 3), format_name)
    memory.write(layout, 0, values_of((2, 3), format_name), padding)
    lanes = memory.typed(0, layout.number.torch_dtype, layout.device_size, layout.device_strides)[0, :, 3:]
    wanted = padding_value(padding, lanes.dtype, True)
    assert wanted is not None
    if isinstance(wanted, float) and math.isnan(wanted):
        assert lanes.isnan().all()
    else:
        assert (lanes == wanted).all()


def test_without_poison_undefined_padding_stays() -> None:
    memory = Memory(Device(memory_bytes=4096, poison=False))
    memory.typed(0, torch.float32, (32,), (1,)).fill_(7.0)
    memory.write(row_major((3,), "fp32"), 0, torch.zeros(3))
    assert memory.typed(0, torch.float32, (4,), (1,)).tolist() == [0.0, 0.0, 0.0, 7.0]


@pytest.mark.parametrize(
    ("tensor", "what"), [(torch.zeros(2, 4), "size"), (torch.zeros(2, 3, dtype=torch.float64), "dtype")]
)
def test_a_tensor_that_the_layout_does_not_hold(tensor: torch.Tensor, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Memory(SMALL).write(row_major((2, 3), "fp32"), 0, tensor)


@pytest.mark.parametrize(
    ("address", "size", "strides"),
    [
        (2, (1,), (1,)),
        (-4, (1,), (1,)),
        (256, (1,), (1,)),
        (0, (65,), (1,)),
        (0, (2, 2), (63, 2)),
        (0, (2,), (-1,)),
        (0, (2,), (1, 1)),
    ],
)
def test_a_view_stays_inside(address: int, size: tuple[int, ...], strides: tuple[int, ...]) -> None:
    with pytest.raises(DeviceAddressError):
        tiny(2).typed(address, torch.float32, size, strides)


def test_the_last_element_and_the_empty_view_are_inside() -> None:
    assert tiny(2).typed(0, torch.float32, (2, 2), (62, 1)).shape == (2, 2)
    assert tiny(0).typed(0, torch.float32, (0, 5), (9, 9)).shape == (0, 5)


def test_allocations_are_sticks_apart_and_counted() -> None:
    memory = tiny(4)
    first, second = memory.allocate(1), memory.allocate(129)
    assert sorted({first % 128, second % 128}) == [0]
    assert memory.in_use == 3 * 128
    with pytest.raises(OutOfDeviceMemory, match="384 of the device's 512"):
        memory.allocate(200)
    memory.free(first)
    assert (memory.in_use, memory.peak) == (256, 384)
    with pytest.raises(KeyError):
        memory.free(first)


def test_the_smallest_hole_that_fits_is_taken_and_holes_join() -> None:
    memory = tiny(8)
    places = [memory.allocate(128 * n) for n in (2, 1, 1, 1, 1)]
    memory.free(places[0])
    memory.free(places[2])
    assert memory.allocate(128) == places[2]
    for place in places[1:]:
        memory.free(place)
    assert memory.allocate(8 * 128) == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 700)), max_size=40))
def test_live_allocations_never_overlap(steps: list[tuple[bool, int]]) -> None:
    memory, live = tiny(32), {}
    for take, amount in steps:
        if take or not live:
            try:
                live[memory.allocate(amount)] = max(amount, 1)
            except OutOfDeviceMemory:
                continue
        else:
            memory.free(sorted(live)[amount % len(live)])
            del live[sorted(live)[amount % len(live)]]
        places = sorted(live.items())
        assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(places))
        assert all(a + n <= memory.size for a, n in places)
    for address in live:
        memory.free(address)
    assert memory.in_use == 0
    assert memory.allocate(memory.size) == 0


def test_untouched_memory_costs_nothing() -> None:
    """A terabyte is mapped, not taken: only the touched page is resident."""
    memory = Memory(Device(memory_bytes=1024**4))
    memory.typed(1024**4 - 128, torch.float32, (32,), (1,)).fill_(1.0)
    assert memory.typed(1024**4 - 4, torch.float32, (1,), (1,)).item() == 1.0

"""Transfers agree with the memory's definition of a layout, are logged, and each fault of theirs shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from accel_lab.mock.device import FORMATS  # noqa: E402
from accel_lab.mock.ir.layout import Layout, row_major  # noqa: E402
from accel_lab.mock.runtime.memory import Memory  # noqa: E402
from accel_lab.mock.runtime.transfer import checksum, to_device, to_host  # noqa: E402
from mock_specs import EXTENTS, SMALL, values_of  # noqa: E402

pytestmark = pytest.mark.torch


def bytes_of(memory: Memory, address: int, count: int) -> torch.Tensor:
    return memory.typed(address, torch.uint8, (count,), (1,))


def viewed(data: Any, size: list[int], format_name: str) -> torch.Tensor:
    """A host tensor of a size that is contiguous, transposed, an offset part of another, or expanded."""
    form = data.draw(st.sampled_from(["contiguous", "transposed", "offset", "expanded", "strided"]))
    if form == "transposed":
        return values_of(size[::-1], format_name).permute(list(reversed(range(len(size)))))
    if form == "offset" and size:
        return values_of([size[0] + 2, *size[1:]], format_name)[2:]
    if form == "expanded" and size:
        return values_of([1, *size[1:]], format_name).expand(size)
    if form == "strided" and size:
        return values_of([*size[:-1], 2 * size[-1]], format_name)[..., ::2]
    return values_of(size, format_name)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_round_trip_and_the_bytes_are_those_of_the_definition(data: Any) -> None:
    size = data.draw(st.lists(st.sampled_from((0, *EXTENTS)), max_size=3))
    if torch.Size(size).numel() > 50_000:
        size = size[:2]
    format_name = data.draw(st.sampled_from(sorted(FORMATS)))
    order = data.draw(st.permutations(range(len(size))))
    padding = data.draw(st.sampled_from(["undefined", "zero", "one", "lowest", "highest"]))
    tensor = viewed(data, size, format_name)
    layout = Layout(size=tuple(size), order=tuple(order), format=format_name)
    memory = Memory(SMALL)
    room = layout.bytes + 128
    memory.poison(0, 2 * room)
    to_device(memory, tensor, layout, 0, padding)
    memory.write(layout, room, tensor, padding)
    assert torch.equal(bytes_of(memory, 0, room), bytes_of(memory, room, room))
    back = to_host(memory, layout, 0)
    assert back.is_contiguous()
    assert torch.equal(back, tensor)


def test_a_transfer_copies() -> None:
    memory, layout = Memory(SMALL), row_major((3,), "fp32")
    to_device(memory, torch.ones(3), layout, 0)
    held = to_host(memory, layout, 0)
    to_device(memory, torch.zeros(3), layout, 0)
    assert held.tolist() == [1.0, 1.0, 1.0]


def test_a_tensor_that_needs_a_gradient_or_is_of_inference_mode() -> None:
    memory, layout = Memory(SMALL), row_major((70,), "fp32")
    with torch.inference_mode():
        to_device(memory, torch.ones(70), layout, 0)
    to_device(memory, torch.zeros(70, requires_grad=True), layout, 0)
    assert not to_host(memory, layout, 0).requires_grad


@pytest.mark.parametrize("tensor", [torch.zeros(3, dtype=torch.float64), torch.zeros(4)])
def test_what_the_layout_does_not_hold(tensor: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="is not what the layout holds"):
        to_device(Memory(SMALL), tensor, row_major((3,), "fp32"), 0)


def test_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, layout = Memory(SMALL), Layout(size=(3, 70), order=(1, 0), format="fp32")
    monkeypatch.setenv("ACCEL_LAB_MOCK_ARTIFACTS", str(tmp_path / "artifacts"))
    to_device(memory, torch.zeros(3, 70), layout, 0)
    assert not list(tmp_path.iterdir()), "nothing is written unless asked"
    monkeypatch.setenv("ACCEL_LAB_DEBUG", "1")
    tensor = torch.arange(280.0).view(4, 70)[1:]
    tensor[0, 0] = float("nan")
    to_device(memory, tensor, layout, 128)
    to_host(memory, layout, 128)
    lines = (tmp_path / "artifacts" / "transfers.jsonl").read_text().splitlines()
    sent, received = (json.loads(line) for line in lines)
    assert (sent["transfer"], received["transfer"]) == ("to_device", "to_host")
    assert sent["shape"] == [3, 70]
    assert (sent["dtype"], sent["strides"], sent["offset"]) == ("float32", [70, 1], 70)
    assert sent["layout"]["order"] == [1, 0]
    assert sent["first"][:2] == ["nan", 71.0]
    assert sent["checksum"] == received["checksum"] == checksum(tensor)
    assert checksum(torch.zeros(3)) != checksum(torch.ones(3))


def round_trip(tensor: torch.Tensor, format_name: str) -> torch.Tensor:
    memory, layout = Memory(SMALL), row_major(tuple(tensor.shape), format_name)
    memory.poison(0, layout.bytes)
    to_device(memory, tensor, layout, 0)
    return memory.read(layout, 0)


def test_fault_tail_stick_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = values_of((2, 65), "fp16")
    monkeypatch.setenv("MOCK_FAULTS", "tail_stick_dropped")
    found = round_trip(tensor, "fp16")
    assert torch.equal(found[:, :64], tensor[:, :64])
    assert found[:, 64].isnan().all()
    assert torch.equal(round_trip(tensor[:, :64], "fp16"), tensor[:, :64])
    memory, layout = Memory(SMALL), row_major((2, 65), "fp16")
    memory.write(layout, 0, tensor)
    assert not torch.equal(to_host(memory, layout, 0), tensor)
    assert round_trip(torch.tensor(3.0), "fp32").isnan()


def test_fault_storage_offset_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = values_of((9, 5), "fp32")
    monkeypatch.setenv("MOCK_FAULTS", "storage_offset_ignored")
    assert torch.equal(round_trip(whole[3:], "fp32"), whole[:6])
    assert torch.equal(round_trip(whole, "fp32"), whole)


def test_fault_transposed_transfer_overread(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = values_of((72, 91), "fp32")
    monkeypatch.setenv("MOCK_FAULTS", "transposed_transfer_overread")
    assert torch.equal(round_trip(whole.t(), "fp32"), whole.reshape(91, 72))
    assert torch.equal(round_trip(whole, "fp32"), whole)
    assert torch.equal(round_trip(whole[:1].expand(4, 91), "fp32"), whole[:1].expand(4, 91))
    assert torch.equal(round_trip(whole[:, :1].t(), "fp32"), whole[:, :1].t())


def test_fault_subnormals_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.tensor([2.0**-15, -(2.0**-16), 2.0**-14, 0.0, 1.0], dtype=torch.float16)
    monkeypatch.setenv("MOCK_FAULTS", "subnormals_halved")
    assert torch.equal(round_trip(tensor, "fp16")[:2], tensor[:2] / 2)
    assert torch.equal(round_trip(tensor, "fp16")[2:], tensor[2:])
    assert torch.equal(round_trip(tensor.float(), "fp32"), tensor.float())


def test_fault_int64_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.tensor([1, -2, 2**40 + 5])
    monkeypatch.setenv("MOCK_FAULTS", "int64_truncated")
    assert round_trip(tensor, "int64").tolist() == [1, -2, 5]

"""Layers as the child wrote them: what is read, counted and estimated, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fakes_layers
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.inspection import layers
from accel_lab.inspection.captured import Kernel


@pytest.fixture
def found(tmp_path: Path) -> list[layers.Layer]:
    fakes_layers.write(tmp_path / "probe")
    return layers.read(ChildFiles(tmp_path / "probe"))


def test_an_unfinished_last_line_is_dropped(found: list[layers.Layer]) -> None:
    assert [layer.title for layer in found] == [
        "Dynamo graph",
        "post-grad graph, backward",
        "loop IR before fusion, forward",
    ]


def test_operators_and_dtypes_are_counted(found: list[layers.Layer]) -> None:
    assert found[0].operators["aten.mul.Tensor"] == 1
    assert sum(found[0].operators.values()) == 3
    assert found[0].dtypes == {"float32": 3, "float64": 1}


def test_memory_counts_a_view_once_and_frees_after_the_last_use(found: list[layers.Layer]) -> None:
    memory = found[0].memory
    # x alone, x with its view, x + product, x + product + cast, x + cast
    assert memory.held == (24, 24, 48, 80, 56)
    assert (memory.peak, memory.peak_at, memory.inputs, memory.unknown) == (80, 3, 24, 0)


def test_sizes_that_only_the_data_knows_are_told() -> None:
    unknown = layers.Tensor(dtype="int64", shape=(-1,), bytes=-1, storage=0)
    node = layers.Node(
        name="n", op="call_function", target="t", inputs=(), tensors=(unknown,), source="", code=""
    )
    layer = layers.Layer(kind="dynamo", direction="", order=0, file="", nodes=(node,))
    assert layer.memory == layers.Memory(held=(0,), inputs=0, unknown=1)
    assert unknown.text == "int64[?]"


@pytest.mark.parametrize("change", [{"order": "1"}, {"nodes": [{"name": 1}]}, {"file": None}])
def test_what_the_child_does_not_write_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / "layers.jsonl").write_text(json.dumps({**fakes_layers.layers()[0], **change}) + "\n")
    with pytest.raises(UntrustedFileError, match=r"layers\.jsonl"):
        layers.read(ChildFiles(tmp_path))


def test_a_kernel_line_has_the_users_line_or_the_operator() -> None:
    lines = list(Kernel.from_facts(fakes_layers.KERNEL).lines())
    assert [line.sources for line in lines] == [
        (),
        ("/home/me/model.py:7 y = x * 2", "aten.cast.default"),
        ("aten.cast.default",),
        (),
    ]


def test_amounts() -> None:
    assert [layers.amount(size) for size in (0, 1023, 1536, 5 << 30)] == [
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "5.0 GiB",
    ]

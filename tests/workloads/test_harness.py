"""Two backends compared in this process: each kind of output, and the faults of older tools of this sort."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

CASES = Path(__file__).parents[1] / "fakes" / "torch_harness_cases.py"


@pytest.fixture(scope="module")
def told(torch_python: str) -> dict[str, Any]:
    """What the cases said, by name; all of them in one process of the interpreter that has torch."""
    ended = subprocess.run(
        [torch_python, str(CASES)], capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_what_agrees_agrees_in_every_shape(told: dict[str, Any]) -> None:
    shapes = ("scalar", "empty", "nan", "complex", "ints", "float64", "float8", "sparse", "nested", "slotted")
    for name in (*shapes, "nested_input", "dropout", "batch_norm"):
        assert told[name]["same"], (name, told[name])
        assert told[name]["rows"], name


def test_outputs_of_every_form_are_compared(told: dict[str, Any]) -> None:
    names = [row["name"] for row in told["nested"]["rows"]]
    wanted = ["output.loss", "output.parts.0", "output.parts.1.first", "output.label", "output.data.value"]
    assert set(wanted) <= set(names)
    assert told["slotted"]["rows"][0]["name"] == "output.s.value"
    names = [row["name"] for row in told["nested_input"]["rows"]]
    assert names == ["output", "input.0.a.0", "grad.input.0.a.0"]


@pytest.mark.parametrize(
    ("name", "row", "reason"),
    [
        ("wrong_value", "output", "values"),
        ("wrong_imaginary", "output", "values"),
        ("wrong_int64", "output", "values"),
        ("other_layout", "output", "type"),
        ("wrong_float64", "output", "values"),
        ("other_dtype", "output", "dtype"),
        ("other_shape", "output", "shape"),
        ("extra_output", "output.1", "extra"),
        ("missing_output", "output.1", "missing"),
        ("wrong_gradient", "grad.weight", "values"),
        ("wrong_buffer", "buffer.count", "values"),
        ("other_number", "output.1", "value"),
        ("other_aliasing", "aliasing", "aliasing"),
        ("large_value", "output", "values"),
        ("nan_beside", "output", "nan"),
    ],
)
def test_what_differs_is_told_where_and_how(told: dict[str, Any], name: str, row: str, reason: str) -> None:
    differing = {r["name"]: r["reason"] for r in told[name]["rows"] if not r["same"]}
    assert differing.get(row) == reason, told[name]


def test_nothing_of_the_process_is_changed(told: dict[str, Any]) -> None:
    assert told["state"] == {"random": True, "training": True, "weights": True, "inputs": True, "grads": True}


def test_several_runs_are_told_apart(told: dict[str, Any]) -> None:
    assert told["several"]["errors"] == [0.0, 0.0, 0.0]


def test_against_float64_the_errors_are_those_of_the_tested_backend(told: dict[str, Any]) -> None:
    found = told["against_float64"]
    assert found["same"] and found["name"] == "output"
    assert found["errors"] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("sparse_pair", "values"),
        ("nothing", "ValueError: the model takes and returns no values"),
        ("float64_tested", "ValueError: test_backend is fp64"),
        ("nested_tensor", "TypeError: a nested tensor is compared part by part"),
        ("meta_tensor", "TypeError: a tensor on the meta device has no values"),
    ],
)
def test_what_cannot_be_compared_is_one_line(told: dict[str, Any], name: str, line: str) -> None:
    assert told[name]["said"].startswith(line)

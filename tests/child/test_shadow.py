"""The shadow run: equal to a true float64 run, along the real run's choices, without a trace left on it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[1] / "fakes"
CHILD = HERE.parents[1] / "bisect" / "accel_lab" / "child"
CASES = (
    "matmul",
    "softmax",
    "layer_norm",
    "convolution",
    "views_and_writes",
    "index_put",
    "out_arguments",
    "complex_views",
    "complex_matmul",
    "dropout",
    "fused_dropout",
    "random_numbers",
    "backward_of_an_mlp",
    "batch_norm",
    "attention",
    "inference",
    "factories",
    "lists_of_tensors",
    "training",
    "discrete_steps",
    "expanded",
    "vmapped",
    "second_derivative",
    "checkpointed",
    "casts",
)

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def told(torch_pythons: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What each interpreter tells of the cases; one process for each."""
    answers = {}
    for python in torch_pythons:
        command = [python, str(HERE / "torch_shadow_cases.py"), str(CHILD)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        answers[python] = json.loads(done.stdout)
    return answers


def test_every_case_is_asserted_here(told: dict[str, dict[str, Any]]) -> None:
    assert all(set(answer["cases"]) == set(CASES) for answer in told.values())


@pytest.mark.parametrize("name", CASES)
def test_the_shadow_is_a_true_float64_run(told: dict[str, dict[str, Any]], name: str) -> None:
    for answer in told.values():
        case = answer["cases"][name]
        assert case["has_reference"] and case["shape"]
        assert case["fallbacks"] == {}
        assert case["dtype"] == ("torch.complex128" if name == "complex_matmul" else "torch.float64")
        assert case["error"] <= 1e-12
        assert case["real_error"] > 1e-9, "the real run must show its rounding, or the case proves nothing"


@pytest.mark.parametrize("name", CASES)
def test_the_real_run_is_left_as_it_was(told: dict[str, dict[str, Any]], name: str) -> None:
    for answer in told.values():
        assert answer["cases"][name]["same_result"]
        assert answer["cases"][name]["same_state"], "the random generator was advanced otherwise"


@pytest.mark.parametrize("name", CASES)
def test_random_roundings_move_it_as_far_as_the_real_run_is_off(
    told: dict[str, dict[str, Any]], name: str
) -> None:
    for answer in told.values():
        case = answer["cases"][name]
        assert case["has_spread"]
        assert case["real_error"] / 10 < case["spread"] < case["real_error"] * 10


def test_numbers_taken_out_of_tensors_are_known(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        numbers = answer["special"]["numbers"]
        assert numbers["exact"] == 1 / 3 and numbers["value"] != 1 / 3
        assert 0 < numbers["spread"] < 1e-7
        assert 1e-8 < numbers["noise"] < 1e-5, "a sum that cancels: the last bits of what went into it"
        assert numbers["unknown"] and numbers["ambiguous"]


def test_casts_do_not_round_the_shadow(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        assert answer["cases"]["casts"]["real_error"] > 1e-4


def test_writes_behind_the_mode_are_seen(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        special = answer["special"]
        assert special["numpy_write"] <= 1e-12
        assert special["other_type"] == 0.0
        assert special["resized"] <= 1e-12


def test_what_has_no_reference_says_so(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        special = answer["special"]
        assert special["float64_only"] is None and special["float64_alone"] is False
        assert special["integers"] is None
        assert special["lost"] is True and special["found_again"] is True
        assert special["thread"] is True
        assert special["branch"] == {"runs": True, "reference": False}


def test_subclasses_and_small_floats(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        assert answer["special"]["subclass"] <= 1e-12
        assert answer["special"]["float8"] in (None, 0.0)


def test_the_scripts_own_operators_run_once(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        own = answer["special"]["own_operators"]
        assert own["runs"] == ["twice"]
        assert own["followed"] <= 1e-12 and own["written"] <= 1e-12
        assert own["opaque"] is True


def test_nothing_is_left_behind(told: dict[str, dict[str, Any]]) -> None:
    for answer in told.values():
        special = answer["special"]
        assert special["rows_grow"] < 4200, "shadows of dead storages must go"
        assert special["raised"] == ["RuntimeError", "IndexError"]
        assert special["after"] is True
        assert special["default_dtype"] == "torch.float32"

"""A recording holds calls against an eager and a float64 run, leaves the job as it is, keeps the first."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import accel_lab

pytestmark = pytest.mark.torch
CHILD = Path(accel_lab.__file__).parent / "child"
CASES = Path(__file__).resolve().parents[1] / "fakes" / "torch_capsule_cases.py"


@pytest.fixture(scope="module")
def told(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [torch_python, str(CASES), str(CHILD), str(tmp_path_factory.mktemp("capsules"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    cases: dict[str, Any] = json.loads(done.stdout)
    assert all(case["summary"]["notes"] == [] for case in cases.values())
    return cases


@pytest.mark.parametrize("name", ["right", "roundings", "right_input", "other_side"])
def test_what_is_right_is_not_kept(told: dict[str, Any], name: str) -> None:
    assert told[name]["capsules"] == [] and told[name]["summary"]["checked"] == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("wrong_output", "output 0"),
        ("wrong_gradient", "gradient of input 1"),
        ("wrong_input", "input 1 after the call"),
    ],
)
def test_a_wrong_value_is_kept_with_its_float64_error(told: dict[str, Any], name: str, what: str) -> None:
    (capsule,) = told[name]["capsules"]
    assert capsule["kind"] == "wrong" and capsule["call"] == 1 and capsule["reason"] == ""
    (row,) = capsule["rows"]
    assert row["what"] == what and row["reference"] and row["error"] > 100 * row["eager"]
    assert capsule["verified"] is None


def test_the_job_sees_its_own_gradients_and_its_own_random_numbers(told: dict[str, Any]) -> None:
    for row, wrong in zip(told["right"]["seen"][0], told["wrong_gradient"]["seen"][0], strict=True):
        assert wrong == pytest.approx([1.5 * number for number in row])
    assert told["undisturbed"]["seen"] == told["random"]["seen"]


def test_the_jobs_exception_stays_its_own_and_the_graph_is_kept(told: dict[str, Any]) -> None:
    assert told["raises"]["seen"] == ["KeyError('a kernel is missing')"]
    (capsule,) = told["raises"]["capsules"]
    assert capsule["kind"] == "raises" and capsule["error"]["type"] == "KeyError"


def test_calls_that_are_not_checked_are_counted_with_the_reason(told: dict[str, Any]) -> None:
    assert told["random"]["summary"]["unchecked"] == {"a graph that draws random numbers": 1}
    assert told["too_large"]["summary"]["unchecked"] == {"inputs of more than 0 MB": 1}
    assert told["too_large"]["capsules"] == []


def test_the_first_calls_and_each_nth_one_are_checked_until_one_is_kept(told: dict[str, Any]) -> None:
    assert told["sampled"]["summary"]["checked"] == 3  # the calls 1, 4 and 8
    assert [capsule["call"] for capsule in told["sampled"]["capsules"]] == [8]
    assert len(told["one_is_kept"]["capsules"]) == 1 and told["one_is_kept"]["summary"]["checked"] == 1

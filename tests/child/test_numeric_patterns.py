"""Numeric patterns run by a real build: what Inductor compiles rightly passes, and planted faults do not.

Tiny values, sums that cancel, gradients that are zero but for roundings, half types and autocast: each is
recorded uncompiled, with a float64 run alongside, and compiled (``torch_numeric_cases.py``).
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_lab.numerics.recording import load
from accel_lab.numerics.records import Difference, agreement, diff, failures

HERE = Path(__file__).resolve().parents[1] / "fakes"
CHILD = HERE.parents[1] / "bisect" / "accel_lab" / "child"
HEALTHY = (
    "softmax_of_large_scores",
    "layer_norm_of_tiny_values",
    "centred",
    "centred_and_summed",
    "sum_of_centred_large_values",
    "variance_of_a_constant",
    "convolution_before_batch_norm",
    "attention_with_a_mask",
    "fused_attention",
    "exp_and_log_near_zero",
    "tiny_everywhere",
    "zero_gradients",
    "masked_gradients",
    "cross_entropy_of_sure_scores",
    "difference_of_products",
    "float64_cancels",
    "running_sums",
    "bfloat16_linear",
    "float16_linear",
    "autocast_loss",
    "autocast_deep",
    "autocast_scalar",
    "complex_spectrum",
    "adam",
    "adam_under_autocast",
)
#: The faults and a word of what is told of them.
PLANTED = {
    "gate_off_by_three_percent": "every value is 1.03 times eager's",
    "gate_in_bfloat16": "rounded to a narrower type",
    "gate_lost": "",
    "gate_of_one_row_lost": "4 of 192 differ",
    "half_at_1em08": "1 of 100 differ, first at [99]",
    "half_at_1em20": "1 of 100 differ, first at [99]",
    "half_at_1em30": "1 of 100 differ, first at [99]",
    "half_at_1em36": "1 of 100 differ, first at [99]",
    "number_of_1em9": "e-10 instead of ",
    "complex_at_1em12": "100 of 100 differ",
    "float64_off_by_1em9": "error 1e-09",
    "leak_beside_tiny_values": "1e-12 instead of 0",
}

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The recordings of one case."""

    folder: Path

    def suspected(self) -> bool:
        return bool(failures(diff(load(self.folder / "got"), load(self.folder / "plain"), prefilter=True)))

    def decided(self, got: str = "got") -> list[Difference]:
        return failures(diff(load(self.folder / got), load(self.folder / "exact")))


@pytest.fixture(scope="module")
def cases(torch_pythons: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A folder of recordings for each interpreter."""
    folders = []
    for python in torch_pythons:
        folder = tmp_path_factory.mktemp("cases")
        command = [python, str(HERE / "torch_numeric_cases.py"), str(CHILD), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        told = json.loads(done.stdout.strip().splitlines()[-1])
        assert (tuple(told["healthy"]), tuple(told["planted"])) == (HEALTHY, tuple(PLANTED))
        folders.append(folder)
    return folders


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_compiled_rightly_is_not_said_to_fail(cases: list[Path], name: str) -> None:
    for folder in cases:
        assert [d.line for d in Case(folder=folder / name).decided()] == []


@pytest.mark.parametrize("name", HEALTHY)
def test_an_uncompiled_run_agrees_with_another(cases: list[Path], name: str) -> None:
    for folder in cases:
        assert Case(folder=folder / name).decided("plain") == []
        plain = load(folder / name / "plain")
        told = agreement(plain, load(folder / name / "exact"))
        assert told.types and all(row.greatest == 0 for row in told.types)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_seen(cases: list[Path], name: str) -> None:
    for folder in cases:
        case = Case(folder=folder / name)
        assert case.suspected(), "the prefilter must ask for the float64 run"
        assert any(PLANTED[name] in d.comparison.detail for d in case.decided())


@pytest.mark.parametrize("name", PLANTED)
def test_without_the_fault_they_pass(cases: list[Path], name: str) -> None:
    for folder in cases:
        assert Case(folder=folder / name).decided("plain") == []

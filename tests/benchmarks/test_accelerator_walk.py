"""The walk below an accelerator: from a failing run to a bundle that runs again with a clean environment."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import accelerator_walk as walks  # noqa: E402

ROW = walks.Walk(
    fault="exp_tail_wrong",
    script="exp_tail_wrong__exp.py",
    want="mock.back_end",
    got="mock.back_end",
    confidence="proven",
    component="kernel k0000_exp",
    rerun="MATCH",
)


@pytest.mark.parametrize(
    "change",
    [
        {"rerun": "MISMATCH"},
        {"rerun": "exit 2: has no accelerator"},
        {"got": "mock.front_end"},
        {"got": ""},
        {"lacking": ("transfers.jsonl",)},
    ],
)
def test_a_walk_holds_only_with_match_stage_and_files(change: dict[str, Any]) -> None:
    assert ROW.holds
    row = replace(ROW, **change)
    assert not row.holds
    text = walks.table([ROW, row])
    assert text.endswith("1 of 2 walks end in MATCH") and text.splitlines()[1].startswith("NO ")


@pytest.mark.parametrize(
    ("said", "code", "expected"),
    [
        ("MATCH: the same", 0, "MATCH"),
        ("MISMATCH: gone", 1, "MISMATCH"),
        ("no torch", 2, "exit 2: no torch"),
        ("MATCH: but it crashed", 3, "exit 3: MATCH: but it crashed"),
    ],
)
def test_what_the_bundle_says_is_read_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int, expected: str
) -> None:
    monkeypatch.setenv("MOCK_FAULTS", "exp_tail_wrong")
    clean = "import os; assert 'MOCK_FAULTS' not in os.environ; "
    with zipfile.ZipFile(tmp_path / "bundle.zip", "w") as bundle:
        bundle.writestr("rerun.py", f"{clean}print({said!r}); raise SystemExit({code})")
        bundle.writestr("accelerator/graph0/loop_ir.txt", "")
        bundle.writestr("accelerator/transfers.jsonl", "")
    found = {"bundle": str(tmp_path / "bundle.zip")}
    rerun, lacking = walks._run_again(found, tmp_path / "place", sys.executable, 60.0)
    assert rerun == expected
    assert lacking == ("fused.txt", "tiled.txt", "memory_plan.txt", "versions.json")


def test_a_run_without_a_bundle_says_so(tmp_path: Path) -> None:
    rerun, lacking = walks._run_again({"verdict": "passes"}, tmp_path, sys.executable, 60.0)
    assert rerun == "no bundle: verdict passes" and lacking == walks.CHECKLIST


def test_every_fault_of_the_mock_has_a_script_to_walk() -> None:
    from accel_lab.mock.faults import CATALOGUE

    assert set(walks.ON_MOCK) == set(CATALOGUE)
    assert all(fault.scripts for fault in walks.ON_MOCK.values())


@pytest.mark.torch
@pytest.mark.slow
# Wrong numbers, and a program that the device refuses before anything is transferred.
@pytest.mark.parametrize("name", ["tail_stick_dropped", "mask_constant_nan"])
def test_from_the_failing_run_to_a_bundle_that_matches(name: str, torch_python: str) -> None:
    fault = walks.ON_MOCK[name]
    row = walks.walk(fault, fault.scripts[0], torch_python, minimize=0.0, timeout_s=900.0)
    assert row.holds, row

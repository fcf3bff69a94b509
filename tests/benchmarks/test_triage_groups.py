"""Purity and completeness of groups, and the scripts of a seeded fault."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import triage_groups as groups  # noqa: E402


def test_groups_that_are_the_faults_are_pure_and_complete() -> None:
    found = groups.judged({"a": "x", "b": "x", "c": "y"}, [["a", "b"], ["c"]])
    assert (found.purity, found.completeness, found.good) == (1.0, 1.0, True)


def test_a_mixed_group_costs_purity_and_a_torn_fault_completeness() -> None:
    truth = {"a": "x", "b": "x", "c": "x", "d": "x", "e": "y"}
    mixed = groups.judged(truth, [["a", "b", "c", "d", "e"]])
    assert (mixed.purity, mixed.completeness, mixed.mixed) == (0.8, 1.0, ("x, y",))
    torn = groups.judged(truth, [["a", "b"], ["c", "d"], ["e"]])
    assert (torn.purity, torn.completeness, torn.good) == (1.0, 0.6, False)


def test_a_script_in_no_group_costs_completeness() -> None:
    found = groups.judged({"a": "x", "b": "x"}, [["a"]])
    assert (found.purity, found.completeness, found.alone) == (1.0, 0.5, ("b",))
    assert groups.judged({"a": "x"}, []).good is False


@pytest.mark.torch
def test_the_scripts_of_a_seeded_fault_have_its_patch(torch_python: str, tmp_path: Path) -> None:
    fault = groups.FAULTS["codegen_expm1_wrong"]
    scripts = list(groups.seeded_scripts(fault, torch_python, tmp_path, 3, 0))
    assert 1 <= len(scripts) <= 3 and len({script.read_text() for script in scripts}) == len(scripts)
    for script in scripts:
        assert script.read_text().startswith(fault.patch.read_text())

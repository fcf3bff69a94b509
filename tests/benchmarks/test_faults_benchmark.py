"""The faults benchmark: what is graded right and wrong, and that its faults are off unless asked for."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import faults  # noqa: E402
import seeded  # noqa: E402
from seeded import FAULTS, SCRIPTS, Fault  # noqa: E402

LOWERING = Fault(name="x", want="lowering", part="floor", patch=Path("x.py"))


def found(stage: str | None, confidence: str = "proven", component: str | None = None) -> dict[str, Any]:
    part = {"kind": "op", "name": component, "confidence": "proven"} if component else None
    culprit = {"stage": stage, "confidence": confidence, "component": part} if stage else None
    return {"verdict": "fails", "culprit": culprit, "seconds": {"total": 1.0}, "probes": 3}


@pytest.mark.parametrize(
    ("answer", "grade"),
    [
        (found("lowering"), "right"),
        (found("lowering", "likely"), "right"),
        (found("codegen"), "wrong"),
        (found("codegen", "likely"), "wrong"),
        (found("codegen", "inconclusive"), "cannot tell"),
        (found("kernel"), "cannot tell"),
        (found(None), "cannot tell"),
        ({**found(None), "verdict": "passes"}, "does not show"),
    ],
)
def test_grades(answer: dict[str, Any], grade: str) -> None:
    assert faults.graded(LOWERING, "x__y.py", answer).grade == grade


def test_a_component_is_graded_where_the_right_one_is_known() -> None:
    def part(component: str | None) -> bool | None:
        row: faults.Row = faults.graded(LOWERING, "x__y.py", found("lowering", component=component))
        return row.part

    assert (part("aten.floor.default"), part("aten.ceil.default"), part(None)) == (True, False, None)


def test_counts_say_what_is_never_wrong() -> None:
    rows = [
        faults.Row(fault="a", script="a__1.py", want="fx_passes", got="fx_passes", confidence="proven"),
        faults.Row(fault="a", script="a__2.py", want="fx_passes", got="codegen", confidence="proven"),
        faults.Row(fault="b", script="b__1.py", want="fx_passes", got="fx_passes", confidence="likely"),
    ]
    text = faults.counts(rows)
    assert "2 right, 1 wrong (1 of the right ones proven); 1 of 2 faults named right and never wrong" in text


def test_every_fault_has_scripts_and_every_script_a_fault() -> None:
    assert [name for name, fault in FAULTS.items() if not fault.scripts] == []
    assert {path.name.partition("__")[0] for path in SCRIPTS.glob("*.py")} == set(FAULTS)
    patches = {path.stem for path in seeded.PATCHES.glob("*.py")}
    assert patches == {name for name, fault in FAULTS.items() if not fault.on_mock}
    assert all(len(fault.scripts) >= 2 for fault in FAULTS.values() if not fault.on_mock)


def test_a_compilers_fault_stands_in_the_text_that_is_bisected(tmp_path: Path) -> None:
    for fault in FAULTS.values():
        for script in fault.scripts:
            program = fault.program(script, tmp_path)
            text = program.read_text(encoding="utf-8")
            ast.parse(text)
            assert (program == script) is fault.on_mock
            assert fault.environment == ({"MOCK_FAULTS": fault.name} if fault.on_mock else {})
            if fault.patch is not None:
                assert fault.patch.read_text(encoding="utf-8") in text
                assert "accel_lab" not in text


def test_an_unknown_fault_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        faults.main(["no_such_fault"])
    assert ended.value.code == 2 and "no fault is called no_such_fault" in capsys.readouterr().err

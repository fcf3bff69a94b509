"""The joint of workarounds: which file is changed, and when a backport is offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.findings import Findings
from accel_lab.core.probe import Program
from accel_lab.core.releases.versions import Versions
from accel_lab.search.change.backport import patch_of
from accel_lab.workarounds import backports, changed_file

OLD, NEW = "def f():\n    return 1\n", "def f():\n    return 2\n"
FILE = "torch/_refs/__init__.py"


def found(**changes: Any) -> Findings:
    change = {
        "found": True,
        "both_ways": True,
        "pieces": [{"file": FILE, "symbol": "f"}],
        "patch": [row.to_json() for row in patch_of([(FILE, OLD, NEW)])],
        **changes,
    }
    findings = Findings(program=Program(path="/x.py"))
    findings.versions = Versions.from_json(
        {"flips": [{"kind": "fixed", "after": "2.13.0", "at": "2.14.1", "change": change}]}
    )
    return findings


def test_a_proven_change_becomes_a_file_that_the_script_imports_first(tmp_path: Path) -> None:
    (candidate,) = backports(found(), '"""Doc."""\nimport torch\n', "2.13.0", tmp_path)
    assert candidate.kind == "backport" and candidate.where == "top"
    assert candidate.edited.text.splitlines()[0] == '"""Doc."""'
    assert candidate.edited.text.splitlines()[-2:] == ["import torch_backport", "import torch"]
    assert candidate.words == "torch 2.13.0 uses f from torch 2.14.1"
    text = (tmp_path / "backport" / "torch_backport.py").read_text()
    assert "RELEASE = '2.13.0'" in text
    compile(text, "torch_backport.py", "exec")


@pytest.mark.parametrize(
    ("findings", "release"),
    [
        (found(both_ways=False), "2.13.0"),
        (found(both_ways=None), "2.13.0"),
        (found(found=False), "2.13.0"),
        (found(patch=[]), "2.13.0"),
        (found(), "2.12.1"),
        (Findings(program=Program(path="/x.py")), "2.13.0"),
    ],
)
def test_nothing_else_does(findings: Findings, release: str, tmp_path: Path) -> None:
    assert backports(findings, "import torch\n", release, tmp_path) == []
    assert not (tmp_path / "backport").exists()


@pytest.mark.parametrize(
    "changes",
    [{"patch": [{"file": 1}]}, {"pieces": [{}]}, {"patch": [{"file": "", "sha256": "", "hunks": [1]}]}],
)
def test_a_damaged_change_is_refused_in_one_line(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        found(**changes)


def test_the_file_that_is_changed_is_the_script_or_the_test_file(tmp_path: Path) -> None:
    script = tmp_path / "test_a.py"
    script.write_text("")
    assert changed_file(Program(path=str(script))) == script
    assert changed_file(Program(module="pytest", args=("-q", f"{script}::test_b"))) == script
    assert changed_file(Program(module="package.main", args=("--epochs", "3"))) is None
    assert changed_file(Program(path=str(tmp_path / "gone.py"))) is None

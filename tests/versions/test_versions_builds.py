"""The version axis on real builds that differ: the right flip, both sides of it, by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accel_lab.reporting.page import matrix
from accel_lab.reporting.schema import load_schema
from kept_builds import NEW, OLD, two_builds

ROOT = Path(__file__).resolve().parents[2]

#: What 189518 shows without its own check: the numbers are right and their dtype is wrong.
SILENT = """
import torch


def counts():
    return torch.ones(2, 5, dtype=torch.bool).cumsum(1, dtype=torch.bfloat16)


torch.compile(counts)()
"""

pytestmark = [pytest.mark.torch, pytest.mark.builds, pytest.mark.slow]


@pytest.fixture(scope="module")
def pair(torch_pythons: tuple[str, ...]) -> tuple[str, str]:
    """An interpreter with each of the two releases that the cases differ between."""
    return two_builds(torch_pythons)


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accel_lab", *words],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": str(ROOT / "bisect")},
    )


def bisected(tmp_path: Path, pair: tuple[str, str], script: Path, *words: str) -> dict[str, Any]:
    done = lab(
        *("bisect", "--versions", "all", "--pythons", os.pathsep.join(pair), "--json", "--quiet"),
        *(
            "--out",
            str(tmp_path / "o"),
            "--no-minimize",
            "--no-workarounds",
            "--no-components",
            *words,
            str(script),
        ),
    )
    assert done.returncode == 1, done.stderr[-2000:]
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, load_schema())
    return data


def test_a_case_that_was_fixed_between_the_two(tmp_path: Path, pair: tuple[str, str]) -> None:
    script = ROOT / "repros" / "148475-shape-error-handler" / "repro.py"
    data = bisected(tmp_path, pair, script, "--python", pair[0])
    versions = data["versions"]
    assert [(f["kind"], f["after"], f["at"]) for f in versions["flips"]] == [("fixed", OLD, NEW)]
    assert versions["fixed_in"] == NEW
    details = versions["flips"][0]["details"]
    assert details["bad"]["stage"] == "dynamo"
    assert {row["verdict"] for row in details["good"]["ladder"]} == {"good"}
    # The traceback goes through files of Dynamo that changed.
    assert any(
        row["near"] and row["path"].startswith("torch/_dynamo/") for row in details["files"]["changed"]
    )
    assert "hide" not in versions["axes"]["sentence"]


def test_silent_numbers_from_the_end_of_the_line_that_fails(tmp_path: Path, pair: tuple[str, str]) -> None:
    """The user's own build passes: the failing release is looked for, and the stage is found there."""
    script = tmp_path / "silent.py"
    script.write_text(SILENT)
    data = bisected(tmp_path, pair, script, "--python", pair[1])
    assert data["baseline"]["signature"]["kind"] == "values"
    assert [(f["kind"], f["after"], f["at"]) for f in data["versions"]["flips"]] == [("fixed", OLD, NEW)]
    assert data["culprit"]["stage"] == "fx_passes"
    assert any("does not fail on your own build" in line for line in data["warnings"])


def test_the_matrix_of_both(tmp_path: Path, pair: tuple[str, str]) -> None:
    script = ROOT / "repros" / "189518-cumsum-dtype" / "repro.py"
    done = lab(
        *("matrix", "--versions", "all", "--pythons", os.pathsep.join(pair), "--json", "--quiet"),
        *("--rungs", "decomp,fx", "--out", str(tmp_path / "o"), str(script)),
    )
    assert done.returncode == 1, done.stderr[-2000:]
    data = json.loads(done.stdout)
    schema = Path(matrix.__file__).parents[1] / "matrix.schema.json"
    jsonschema.validate(data, json.loads(schema.read_text()))
    rows = {
        row["torch"]: {k: c["verdict"] for k, c in row["cells"].items()} for row in data["matrix"]["rows"]
    }
    assert rows[OLD] == {"uncompiled": "good", "decomp": "good", "fx": "bad", "kernel": "bad"}
    assert set(rows[NEW].values()) == {"good"}
    folder = Path(data["artifacts"])
    assert (folder / "matrix.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "matrix.html").is_file()


def test_measured_numbers_come_from_both(tmp_path: Path, pair: tuple[str, str]) -> None:
    script = tmp_path / "measured.py"
    script.write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    return x.sin() + 1\n\n\n"
        "for n in (4, 4, 5, 5):\n    f(torch.ones(n))\n    torch._dynamo.graph_break()\n"
    )
    done = lab(
        *("bisect", "--versions", "all", "--pythons", os.pathsep.join(pair), "--json", "--quiet"),
        *("--metric", "recompiles", "--out", str(tmp_path / "o"), str(script)),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)["versions"]["tested"]
    assert [(row["torch"], row["metric"]["samples"]) for row in rows] == [(OLD, [1.0]), (NEW, [1.0])]

"""The version axis on real builds that differ: the right flip, both sides of it, by the command line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import docker.errors
import jsonschema
import pytest

from accel_lab.reporting.page import matrix
from accel_lab.reporting.schema import load_schema
from kept_builds import NEW, OLD, two_builds

ROOT = Path(__file__).resolve().parents[2]
CASE = ROOT / "repros" / "148475-shape-error-handler" / "repro.py"

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


def lab(*words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "accel_lab", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
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


@pytest.fixture(scope="module")
def fixed(pair: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is found of a case that was fixed between the two, on this machine."""
    return followed(tmp_path_factory.mktemp("here"), "--pythons", os.pathsep.join(pair))


def followed(out: Path, *provider: str) -> dict[str, Any]:
    """What the command finds of ``CASE`` with builds of that provider."""
    done = lab(
        *("bisect", "--json", "--quiet", "--out", str(out), "--versions", f"{OLD},{NEW}", *provider),
        *("--no-minimize", "--no-components", "--no-companions", "--no-bundle", "--timeout", "600"),
        str(CASE),
        timeout=1500,
    )
    assert done.returncode == 1, done.stderr[-3000:]
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, load_schema())
    return data


def test_a_case_that_was_fixed_between_the_two(fixed: dict[str, Any]) -> None:
    versions = fixed["versions"]
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


def comparable(data: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on where it was run: all but times, places and versions of Python."""
    versions, culprit = data["versions"], data["culprit"]
    signature = data["baseline"]["signature"]
    return {
        "verdict": data["verdict"],
        "signature": {key: signature[key] for key in ("kind", "type", "message")},
        "ladder": {row["rung"]: (row["verdict"], row["status"]) for row in data["ladder"]},
        "culprit": {key: culprit[key] for key in ("stage", "side", "level", "confidence", "component")},
        "tested": [
            (row["torch"], row["verdict"], row["status"], row["stage"], row["component"])
            for row in versions["tested"]
        ],
        "flips": [
            {
                "flip": (flip["kind"], flip["after"], flip["at"]),
                "notes": flip["notes"],
                "good": [(row["rung"], row["verdict"]) for row in flip["details"]["good"]["ladder"]],
                "bad": [(row["rung"], row["verdict"]) for row in flip["details"]["bad"]["ladder"]],
                "files": flip["details"]["files"]["changed"],
                "code": [(row["kind"], row["same"]) for row in flip["details"]["code"]],
            }
            for flip in versions["flips"]
        ],
        "axes": versions["axes"],
    }


@pytest.fixture
def images() -> None:
    """There are images of the two releases as well."""
    with contextlib.closing(docker.from_env(timeout=60)) as client:
        for version in (OLD, NEW):
            try:
                client.images.get(f"accel-lab-torch:{version}")
            except docker.errors.ImageNotFound:
                pytest.skip(f"no image accel-lab-torch:{version}: make docker-build TORCH={version}")


@pytest.mark.docker
@pytest.mark.usefixtures("images")
def test_containers_and_this_machine_find_the_same(tmp_path: Path, fixed: dict[str, Any]) -> None:
    here = comparable(fixed)
    inside = comparable(followed(tmp_path / "inside", "--provider", "docker"))
    assert here["culprit"]["stage"] == "dynamo"
    assert [flip["flip"] for flip in here["flips"]] == [("fixed", OLD, NEW)]
    assert inside == here


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

"""The same failure followed by two providers, in containers and on this machine: the same findings."""

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

from accel_lab.reporting.schema import load_schema
from kept_builds import NEW, OLD, two_builds

pytestmark = [pytest.mark.docker, pytest.mark.torch, pytest.mark.builds, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
CASE = ROOT / "repros" / "148475-shape-error-handler" / "repro.py"


@pytest.fixture
def pair(torch_pythons: tuple[str, ...]) -> tuple[str, str]:
    """An interpreter with each of the two releases, of which there are images as well."""
    found = two_builds(torch_pythons)
    with contextlib.closing(docker.from_env(timeout=60)) as client:
        for version in (OLD, NEW):
            try:
                client.images.get(f"accel-lab-torch:{version}")
            except docker.errors.ImageNotFound:
                pytest.skip(f"no image accel-lab-torch:{version}: make docker-build TORCH={version}")
    return found


def bisected(out: Path, *provider: str) -> dict[str, Any]:
    """What the command finds with builds of that provider."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accel_lab", "bisect", "--json", "--quiet", "--out", str(out)),
            *(
                "--versions",
                f"{OLD},{NEW}",
                *provider,
                "--no-minimize",
                "--no-workarounds",
                "--no-components",
                "--no-companions",
            ),
            *("--timeout", "600", str(CASE)),
        ],
        capture_output=True,
        text=True,
        timeout=1500,
        env={**os.environ, "PYTHONPATH": str(ROOT / "bisect")},
    )
    assert done.returncode == 1, done.stderr[-3000:]
    data: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(data, load_schema())
    return data


def told(data: dict[str, Any]) -> dict[str, Any]:
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


def test_containers_and_this_machine_find_the_same(tmp_path: Path, pair: tuple[str, str]) -> None:
    here = told(bisected(tmp_path / "here", "--pythons", os.pathsep.join(pair)))
    inside = told(bisected(tmp_path / "inside", "--provider", "docker"))
    assert here["culprit"]["stage"] == "dynamo"
    assert [flip["flip"] for flip in here["flips"]] == [("fixed", OLD, NEW)]
    assert inside == here

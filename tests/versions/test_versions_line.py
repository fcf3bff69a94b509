"""The version axis over a line of real releases that have to be fetched: flips that the public fixes tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accel_lab.reporting.schema import load_schema
from kept_builds import KEPT, interpreter, why_not

ROOT = Path(__file__).resolve().parents[2]

#: One patch of each of six minor releases.
LINE = ("2.5.1", "2.6.0", "2.7.0", "2.8.0", "2.9.0", "2.13.0")
#: All the cases fail there; where it is in the store already, it is the user's own build.
OWN = "2.6.0"
#: This one's environments come from the uv provider. Where the store has the whole line, the others are given
#: its interpreters: with the user's own build on the line, that release is not asked twice.
BY_UV = "157959-division-by-constant"

#: Case: what brought it and what mended it (the kind, the last release before, the release), and the stage.
FLIPS = {
    # pytorch#142853: not in 2.5, mended by a pull request between the branches of 2.6 and 2.7
    "142853-dropout2d-fallback-random": (
        [("introduced", "2.5.1", "2.6.0"), ("fixed", "2.6.0", "2.7.0")],
        "decomposition",
    ),
    # pytorch#157959: mended in July 2025, after the branch of 2.8
    "157959-division-by-constant": ([("fixed", "2.8.0", "2.9.0")], "lowering"),
    # pytorch#143555: mended by a pull request between the branches of 2.6 and 2.7
    "143555-right-shift-64": ([("fixed", "2.6.0", "2.7.0")], "codegen"),
}


def bisected(case: str, folder: Path) -> dict[str, Any]:
    python = interpreter(OWN)
    kept = [found for release in LINE if (found := interpreter(release))]
    provider = ("--provider", "uv", "--store", KEPT or str(folder / "store"))
    if case != BY_UV and len(kept) == len(LINE):
        provider = ("--pythons", os.pathsep.join(kept))
    line = ("--versions", ",".join(LINE), *provider)
    # Swapping packages takes as long as all the rest, and environments of its own.
    quick = ("--json", "--quiet", "--no-minimize", "--no-workarounds", "--no-components", "--no-companions")
    own = ("--python", python) if python else ()
    script = ROOT / "repros" / case / "repro.py"
    done = subprocess.run(
        [sys.executable, "-m", "accel_lab", "bisect", *line, *quick, *own, str(script)],
        capture_output=True,
        text=True,
        timeout=1500,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "bisect")},
        check=False,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, load_schema())
    return found


@pytest.mark.builds
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("case", FLIPS)
def test_the_flips_are_those_of_the_public_fixes(case: str, tmp_path: Path) -> None:
    if why := why_not(LINE):
        pytest.skip(why)
    flips, stage = FLIPS[case]
    found = bisected(case, tmp_path)
    versions = found["versions"]
    assert [(flip["kind"], flip["after"], flip["at"]) for flip in versions["flips"]] == flips
    # A range that a skipped release blurred would not be an exact answer.
    assert [flip["between"] for flip in versions["flips"]] == [[] for _ in flips]
    assert {flip["details"]["bad"]["stage"] for flip in versions["flips"]} == {stage}
    for flip in versions["flips"]:
        assert any(row["added"] and row["removed"] for row in flip["details"]["files"]["changed"])

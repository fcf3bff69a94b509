"""A backport: the file that serves the piece of a later release, on a package that stands for torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.releases.flip_change import FlipChange, Piece
from accel_lab.search.change.backport import MOST_LINES, NAME, backport_text, hunks_of, patch_of

OLD = "import math\n\n\ndef area(r):\n    return math.pi * r\n\n\ndef other():\n    return '{x}'\n"
NEW = OLD.replace("math.pi * r", "math.pi * r * r  # mended")


def change(base: str = OLD, mixed: str = NEW) -> FlipChange:
    return FlipChange(
        found=True,
        both_ways=True,
        pieces=(Piece(file="torch/shapes.py", symbol="area"),),
        patch=patch_of([("torch/shapes.py", base, mixed)]),
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package ``torch`` of release 2.13.0, installed as a wheel is, and the backport beside it."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "shapes.py").write_text(OLD)
    (tmp_path / "torch-2.13.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+cpu\n"
    (tmp_path / "torch-2.13.0.dist-info" / "METADATA").write_text(metadata)
    text = backport_text(
        FlipChange.from_json(json.loads(json.dumps(change().to_json()))), release="2.13.0", fixed="2.14.1"
    )
    (tmp_path / f"{NAME}.py").write_text(text)
    return tmp_path


def run(project: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
    )


USE = "import torch.shapes; print(round(torch.shapes.area(2), 2), torch.shapes.other())"


def test_the_mended_piece_is_served_and_the_file_is_left_alone(project: Path) -> None:
    assert run(project, USE).stdout == "6.28 {x}\n"
    done = run(project, f"import {NAME}; {USE}")
    assert done.stdout == "12.57 {x}\n", done.stderr
    assert (project / "torch" / "shapes.py").read_text() == OLD


def test_it_says_what_it_changes_and_under_which_licence(project: Path) -> None:
    text = (project / f"{NAME}.py").read_text()
    assert "area (torch/shapes.py) of torch 2.14.1 on torch 2.13.0" in text.replace("\n", " ")
    assert "PyTorch's, under its BSD-style licence" in text


def test_it_refuses_another_release(project: Path) -> None:
    metadata = project / "torch-2.13.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("2.13.0", "2.14.0"))
    done = run(project, f"import {NAME}; {USE}")
    assert done.returncode == 1 and "is for torch 2.13.0 only: remove it" in done.stderr


def test_it_refuses_a_file_that_is_not_the_releases_own(project: Path) -> None:
    (project / "torch" / "shapes.py").write_text(OLD + "# patched\n")
    done = run(project, f"import {NAME}; {USE}")
    assert done.returncode == 1 and "is not the file of torch 2.13.0" in done.stderr


def test_it_refuses_to_come_too_late(project: Path) -> None:
    done = run(project, f"import torch.shapes; import {NAME}")
    assert done.returncode == 1 and f"import {NAME} before torch" in done.stderr


def test_hunks_make_one_text_of_the_other() -> None:
    lines = OLD.split("\n")
    for first, last, new in reversed(hunks_of(OLD, NEW)):
        lines[first:last] = new
    assert "\n".join(lines) == NEW


def test_what_is_too_much_or_was_not_found_is_no_backport() -> None:
    many = "\n".join(f"x{n} = {n}" for n in range(MOST_LINES + 1))
    assert patch_of([("torch/shapes.py", OLD, many)]) == ()
    assert backport_text(replace(change(), found=False), release="1", fixed="2") == ""
    assert backport_text(replace(change(), patch=()), release="1", fixed="2") == ""


def test_what_torch_cached_without_it_is_not_used_with_it(project: Path) -> None:
    say = "import os; print(os.environ['TORCH_COMPILE_CACHE_KEY_TAG'])"
    tag = run(project, f"import {NAME}; {say}").stdout.strip()
    assert re.fullmatch(rf"{NAME}-[0-9a-f]{{12}}", tag)
    other = backport_text(change(mixed=OLD.replace("math.pi", "3")), release="2.13.0", fixed="2.14.1")
    assert tag not in other

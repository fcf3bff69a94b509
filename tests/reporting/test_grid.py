"""The matrix of releases and rungs: cells, bands, and its three forms, from runs of fake builds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from accel_lab.core.probe import Limits, Program
from accel_lab.core.stages import LADDER
from accel_lab.core.text import for_terminal
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.page import matrix as grid_page
from accel_lab.reporting.page import matrix_plot
from accel_lab.reporting.tables import matrix as grid_table
from accel_lab.reporting.words import matrix as grid_words
from accel_lab.versions.grid import GridRun, columns_of
from accel_lab.versions.release_session import ReleaseSessions, Setting
from fakes_releases import Deed, FakeProvider, broken_between

NAMES = ["2.4.0", "2.5.0", "2.6.0", "2.7.0", "2.8.0"]
SCHEMA = Path(grid_page.__file__).with_name("matrix.schema.json")


def run(tmp_path: Path, provider: FakeProvider, accelerators: tuple[str, ...] = ()) -> GridRun:
    script = tmp_path / "s.py"
    script.write_text("import torch\n")
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    setting = Setting(
        program=Program(path=str(script)), folder=folder, limits=Limits(timeout_s=30), workers=4
    )
    grid = GridRun(ReleaseSessions(setting, provider), NAMES, columns_of(LADDER, accelerators))
    grid.run()
    return grid


def as_json(grid: GridRun) -> dict[str, Any]:
    data = grid.to_json(Program(path="s.py", sha256="0" * 64), seconds=1.0, notes=["a note"])
    jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    return data


def test_cells_bands_and_reasons(tmp_path: Path) -> None:
    inner = broken_between("2.6.0", "2.8.0", NAMES, rung="decomp")

    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        if release == "2.4.0":
            return ("AttributeError", "no such function")
        if release == "2.7.0" and rung == "fx":
            return ("KeyError", "other")
        return inner(release, rung, job)

    provider = FakeProvider(behave=behave, names=NAMES, missing={"2.5.0": "no wheel"})
    grid = run(tmp_path, provider, ("mock",))
    matrix = grid.matrix()
    assert matrix.columns == (*(rung.value for rung in LADDER), "mock")
    verdicts = {name: [cell.verdict.value for cell in matrix.row(name) if cell] for name in NAMES}
    assert verdicts["2.6.0"] == ["good"] * 4 + ["bad"] * 3 + ["good"]
    assert verdicts["2.7.0"] == ["good"] * 4 + ["bad", "different", "bad", "good"]
    assert verdicts["2.8.0"] == ["good"] * 8
    # A script that cannot run there fails in another way on every rung, and never sets the target.
    assert set(verdicts["2.4.0"]) == {"different"}
    assert set(verdicts["2.5.0"]) == {"skip"}
    cell = matrix.cell("2.5.0", "fx")
    assert cell is not None and cell.why == "no wheel"
    assert matrix.starts("2.6.0") == "decomp"
    data = as_json(grid)
    assert data["seen_on"] == "2.7.0"
    assert any("decomp" in line for line in data["sentences"])


def test_every_cell_leads_to_its_run(tmp_path: Path) -> None:
    grid = run(tmp_path, FakeProvider(behave=broken_between("2.6.0", None, NAMES), names=NAMES))
    data = as_json(grid)
    for row in data["matrix"]["rows"]:
        for cell in row["cells"].values():
            assert (tmp_path / "run" / cell["folder"] / "outcome.json").is_file()
            assert not cell["folder"].startswith("/")
    page = grid_page.render(data, matrix_plot.png(data))
    for row in data["matrix"]["rows"]:
        for cell in row["cells"].values():
            assert f'href="{cell["folder"]}/"' in page
    assert "<script" not in page and "http" not in page.replace("http-equiv", "")


def test_the_table_for_a_terminal(tmp_path: Path) -> None:
    grid = run(tmp_path, FakeProvider(behave=broken_between("2.6.0", None, NAMES), names=NAMES))
    data = as_json(grid)
    plain = grid_table.text(data, unicode=False)
    rows = {line.split()[0]: line for line in plain.splitlines() if line[:2] == "2."}
    assert rows["2.5.0"].count("+ passes") == 7
    assert rows["2.6.0"].count("x fails") == 2
    assert "the failure: ValueError: boom" in plain
    assert "note: a note" in plain
    coloured = for_terminal(grid_table.text(data, colour=True))
    assert "\x1b[31m✗ fails\x1b[0m" in coloured and "\x1b[32m✓ passes\x1b[0m" in coloured


def test_the_picture_is_a_png_that_grows_with_the_line(tmp_path: Path) -> None:
    grid = run(tmp_path, FakeProvider(behave=broken_between("2.6.0", None, NAMES), names=NAMES))
    data = as_json(grid)
    whole = matrix_plot.png(data)
    assert whole.startswith(b"\x89PNG")
    short = {**data, "matrix": {**data["matrix"], "rows": data["matrix"]["rows"][:1]}}
    assert _height(matrix_plot.png(short)) < _height(whole)


def _height(png: bytes) -> int:
    return int.from_bytes(png[20:24], "big")


def test_hostile_text_stays_text() -> None:
    bad = "<script>alert(1)</script>"
    cell = {"verdict": bad, "status": bad, "signature": bad, "why": bad, "seconds": 1.0, "folder": "../x"}
    data = {
        "schema": bad,
        "script": {"path": bad},
        "signature": {"kind": "exception", "type": bad, "message": bad},
        "seen_on": bad,
        "matrix": {"columns": [bad], "rows": [{"torch": bad, "starts": bad, "cells": {bad: cell}}]},
        "sentences": [bad],
        "environments": {bad: {"spec": {"provider": bad}}},
        "notes": [bad],
    }
    page = grid_page.render(data)
    assert bad not in page
    assert "../x" not in page
    assert grid_words.mark_of(data).name == "skip"


@pytest.mark.parametrize(
    ("verdicts", "mark"), [(["good", "bad"], "bad"), (["good", "skip"], "good"), (["skip"], "skip")]
)
def test_the_mark_of_the_whole(verdicts: list[str], mark: str) -> None:
    cells = {name: {"verdict": name, "status": "ok"} for name in verdicts}
    data = {"matrix": {"columns": verdicts, "rows": [{"torch": "2.6.0", "cells": cells}]}}
    assert grid_words.mark_of(data).name == mark


def test_nothing_could_be_run(tmp_path: Path) -> None:
    provider = FakeProvider(
        behave=broken_between("2.6.0", None, NAMES), names=NAMES, missing=dict.fromkeys(NAMES, "no network")
    )
    data = as_json(run(tmp_path, provider))
    assert data["sentences"] == []
    assert "no network" in grid_table.text(data)
    assert {c["verdict"] for row in data["matrix"]["rows"] for c in row["cells"].values()} == {
        Verdict.SKIP.value
    }

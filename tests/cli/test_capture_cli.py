"""``accel-lab capture`` on a real torch: the layers of a training step, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

import accel_lab.reporting
from accel_lab.cli import tlparse
from accel_lab.cli.main import cli, main

SCHEMA = Path(str(accel_lab.reporting.__file__)).with_name("capture.schema.json")
SCRIPT = """
import torch


@torch.compile
def f(x):
    y = x.sin()
    return (y * x).sum()


f(torch.ones(3, 5, requires_grad=True)).backward()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_a_training_step_has_every_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tlparse, "program", lambda: None)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    result = CliRunner().invoke(
        cli,
        ["capture", "--timeout", "1500", "--out", str(tmp_path / "out"), "--json", str(script)],
        standalone_mode=False,
    )
    assert result.return_value == 0, result.output
    data = json.loads(result.output)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(data)
    kinds = {(layer["kind"], layer["direction"]) for layer in data["layers"]}
    assert {
        ("dynamo", ""),
        ("joint", ""),
        ("forward", ""),
        ("backward", ""),
        *(
            (kind, way)
            for kind in ("post_grad", "ir_pre_fusion", "ir_post_fusion")
            for way in ("forward", "backward")
        ),
    } <= kinds
    folder = Path(data["folder"])
    assert all((folder / layer["file"]).stat().st_size for layer in data["layers"])
    sources = [row["source"] for kernel in data["kernels"] for row in kernel["operators"]]
    assert any("train.py:7 y = x.sin()" in source for source in sources)
    assert "/*@" not in (folder / data["code"][0]).read_text("utf-8")
    assert data["notes"][0].startswith("tlparse, whose page")


@pytest.mark.torch
def test_a_script_that_compiles_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "plain.py"
    script.write_text("import torch\n")
    with pytest.raises(SystemExit) as ended:
        main(["capture", "--out", str(tmp_path / "out"), str(script)])
    assert ended.value.code == 2
    assert "compiles nothing with torch.compile" in capsys.readouterr().err


def test_tlparse_fails_in_one_line(tmp_path: Path) -> None:
    probe = tmp_path / "probe"
    (probe / "trace").mkdir(parents=True)
    assert tlparse.make_page("false", probe, tmp_path)[1].startswith("torch wrote no structured trace")
    (probe / "trace" / "a.log").write_text("")
    place, why = tlparse.make_page("/usr/bin/false", probe, tmp_path)
    assert place == "" and "tlparse failed (exit code 1)" in why

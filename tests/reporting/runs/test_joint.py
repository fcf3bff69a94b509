"""The joint report: models by constraints, accuracy and stage; two runs compared; three forms."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import accel_lab.reporting
import fakes_kept
from accel_lab.cli.commands.report_command import command
from accel_lab.core.errors import UsageError
from accel_lab.reporting.page import joint as page
from accel_lab.reporting.runs.joint import joint
from accel_lab.reporting.runs.kept_run import KeptRun, kept_run
from accel_lab.reporting.words import joint as words

SCHEMA = Path(str(accel_lab.reporting.__file__)).with_name("joint.schema.json")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path / "home"))
    base = tmp_path / "home" / "runs"
    fakes_kept.write_all(base)
    fakes_kept.write_bisection(base / "bisection")
    return base


def read(base: Path) -> list[KeptRun]:
    found = [kept_run(folder, "") for folder in sorted(base.iterdir())]
    return [run for run in found if run is not None]


def problems(data: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    return [error.message for error in validator.iter_errors(json.loads(json.dumps(data)))]


def test_one_model_has_its_constraints_accuracy_and_stage_from_three_runs(runs: Path) -> None:
    data = joint(read(runs))
    assert problems(data) == [] and data["comparison"] is None
    (row,) = data["models"]
    assert row["model"] == "model.py"
    assert [said["text"] for said in row["constraints"]] == ["dtype: 2, layout: 1"]
    assert [said["text"] for said in row["accuracy"]] == [
        "at most 0.5 (absolute)",
        "1 of 2 values differ, at most 0.25 (relative)",
    ]
    assert [said["text"] for said in row["stage"]] == ["lowering: aten.sum (proven)"]


def test_two_runs_are_compared(tmp_path: Path) -> None:
    one = fakes_kept.write(tmp_path / "a", "diff")
    two = fakes_kept.write(tmp_path / "b", "diff", summary={"values": 2, "differ": 0}, torch="2.10.0")
    found = [run for folder in (one, two) if (run := kept_run(folder)) is not None]
    data = joint(found)
    assert problems(data) == []
    differences = {row["what"]: (row["first"], row["second"]) for row in data["comparison"]["differences"]}
    assert differences["verdict"] == ("differs", "agrees")
    assert differences["torch"] == ("2.9.0", "2.10.0")
    assert set(differences) == {"verdict", "torch", "accuracy"}
    same = joint([found[0], found[0]])
    assert words.compared(same["comparison"]) == "no difference in 1 model that both runs have"
    other = kept_run(fakes_kept.write(tmp_path / "c", "check"))
    assert other is not None
    assert words.alone(joint([found[0], other])["comparison"]) == [
        "only a has model.py on inductor against eager",
        "only c has model.py on mock",
    ]


def test_a_benchmark_has_a_line_for_each_model_and_backend(tmp_path: Path) -> None:
    folder = tmp_path / "bench-1"
    folder.mkdir()
    rows = [
        {
            "model": "bert",
            "backend": name,
            "standing": "ok",
            "violations": {"dtype": 0},
            "distance": {"differing": differing, "tensors": 4, "to_eager": "nan"},
            "latency_ms": {"median": 12.0},
        }
        for name, differing in (("eager", []), ("inductor", ["logits: 0.1 off", "loss: 0.2 off"]))
    ]
    (folder / "bench.json").write_text(json.dumps({"complete": True, "rows": rows}))
    run = kept_run(folder)
    assert run is not None and run.verdict == "2 ok"
    (row,) = joint([run])["models"]
    assert [said["where"] for said in row["verdicts"]] == ["bench eager", "bench inductor"]
    assert row["verdicts"][0]["text"] == "ok, 12 ms"
    assert row["constraints"][0]["text"] == "none of 1 violated"


def test_the_page_and_the_markdown_escape_what_a_run_says(tmp_path: Path) -> None:
    bad = kept_run(fakes_kept.write(tmp_path / "a", "diff", program=fakes_kept.BAD))
    assert bad is not None
    data = joint([bad])
    html, markdown = page.render(data), words.markdown(data)
    assert "<script" not in html and "&lt;script&gt;alert(1)" in html
    assert not re.search(r'(src|href)="(?!data:|file:)', html)
    assert "<script" not in markdown and "&lt;script&gt;" in markdown
    assert len({line.replace("\\|", "").count("|") for line in markdown.splitlines()[2:5]}) == 1


def test_the_command_joins_by_name_and_prints_or_writes(runs: Path, tmp_path: Path) -> None:
    def told(*argv: str) -> str:
        return CliRunner().invoke(command, argv, standalone_mode=False, catch_exceptions=False).output

    assert problems(json.loads(told("kept-diff", "kept-check", "--format", "json"))) == []
    assert told("kept-diff", "--format", "md").startswith("# accel-lab: 1 run of 1 model")
    out = tmp_path / "joint.html"
    assert str(out) in told("kept-diff", "bisection", "--out", str(out))
    text = out.read_text("utf-8")
    assert "The two runs compared" in text and (runs / "bisection" / "report.html").as_uri() in text
    written = told("kept-diff", "kept-guards").splitlines()[-1]
    assert Path(written).parent == runs.parent / "reports" and Path(written).is_file()
    with pytest.raises(UsageError, match="nothing is not a run: `accel-lab list` shows the kept ones"):
        told("nothing")
    with pytest.raises(UsageError, match="--json and --format md contradict each other"):
        told("kept-diff", "--json", "--format", "md")

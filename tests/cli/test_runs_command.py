"""``accel-lab list`` and ``clean`` know what bisect and bench leave, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accel_lab.cli.commands.clean_command import command as clean
from accel_lab.cli.commands.runs_command import command as listing
from accel_lab.execution.run_folder.marker import mark
from accel_lab.request import state_folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path))
    base = state_folder()
    bisection = base / "runs" / "one"
    bisection.mkdir(parents=True)
    (bisection / "request.json").write_text("{}")
    (bisection / "report.json").write_text(json.dumps({"verdict": "fails", "culprit": {"stage": "lowering"}}))
    done = base / "bench" / "bench-20200101-000000-aaaa"
    done.mkdir(parents=True)
    rows = [{"standing": "ok"}, {"standing": "ok"}, {"standing": "failed"}]
    (done / "bench.json").write_text(json.dumps({"complete": True, "rows": rows}))
    (base / "bench" / "bench-20200101-000000-bbbb" / "rows").mkdir(parents=True)
    for folder in (bisection, done, base / "bench" / "bench-20200101-000000-bbbb"):
        mark(folder, "run")
    (base / "bench" / "notes").mkdir()
    (base / "graphs").mkdir()
    return base


def told(home: Path) -> dict[str, tuple[str, str, str]]:
    rows = json.loads(CliRunner().invoke(listing, ["--json"], standalone_mode=False).output)
    return {row["name"]: (row["kind"], row["verdict"], row["stage"]) for row in rows}


def test_both_kinds_are_listed(home: Path) -> None:
    assert told(home) == {
        "one": ("bisect", "fails", "lowering"),
        "bench-20200101-000000-aaaa": ("bench", "1 failed, 2 ok", ""),
        "bench-20200101-000000-bbbb": ("bench", "unfinished", ""),
    }
    text = CliRunner().invoke(listing, [], standalone_mode=False).output
    assert "bench-20200101-000000-aaaa" in text and "bisect" in text


def test_a_benchmark_is_removed_by_name(home: Path) -> None:
    CliRunner().invoke(clean, ["bench-20200101-000000-aaaa"], standalone_mode=False, catch_exceptions=False)
    assert set(told(home)) == {"one", "bench-20200101-000000-bbbb"}


def test_all_takes_both_kinds_and_leaves_the_rest(home: Path) -> None:
    CliRunner().invoke(clean, ["--all", "--dry-run"], standalone_mode=False, catch_exceptions=False)
    assert len(told(home)) == 3
    CliRunner().invoke(clean, ["--all"], standalone_mode=False, catch_exceptions=False)
    assert told(home) == {}
    assert (home / "bench" / "notes").is_dir() and (home / "graphs").is_dir()


def test_recordings_and_triages_are_listed_with_what_they_found(home: Path) -> None:
    recorded, triage = home / "runs" / "job", home / "triage" / "nightly"
    (recorded / "capsules" / "graph0-call1-wrong").mkdir(parents=True)
    (recorded / "record.json").write_text("{}")
    (recorded / "capsules" / "graph0-call1-wrong" / "capsule.json").write_text("{}")
    triage.mkdir(parents=True)
    (triage / "triage-request.json").write_text("{}")
    assert told(home)["job"] == ("record", "1 capsule", "")
    assert told(home)["nightly"] == ("triage", "unfinished", "")
    (triage / "triage.json").write_text(json.dumps({"scripts": [1, 2], "faults": [1]}))
    assert told(home)["nightly"] == ("triage", "2 scripts, faults: 1", "")

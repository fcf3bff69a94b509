"""``accel-lab list`` and ``clean`` know what every command leaves, and nothing else; ``clean`` asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import fakes_kept
from accel_lab.cli.commands.bundle_command import command as bundle
from accel_lab.cli.commands.clean_command import command as clean
from accel_lab.cli.commands.runs_command import command as listing
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.places import state_folder
from accel_lab.execution.run_folder.marker import mark


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
    CliRunner().invoke(
        clean, ["--yes", "bench-20200101-000000-aaaa"], standalone_mode=False, catch_exceptions=False
    )
    assert set(told(home)) == {"one", "bench-20200101-000000-bbbb"}


def test_all_takes_both_kinds_and_leaves_the_rest(home: Path) -> None:
    CliRunner().invoke(clean, ["--all", "--dry-run"], standalone_mode=False, catch_exceptions=False)
    assert len(told(home)) == 3
    CliRunner().invoke(clean, ["--all", "--yes"], standalone_mode=False, catch_exceptions=False)
    assert told(home) == {}
    assert (home / "bench" / "notes").is_dir() and (home / "graphs").is_dir()


def test_clean_asks_and_takes_no_for_an_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no terminal to confirm on: add --yes to remove 1 run"):
        CliRunner().invoke(clean, ["one"], standalone_mode=False, catch_exceptions=False)
    monkeypatch.setattr("accel_lab.cli.commands.clean_command.can_ask", lambda: True)
    CliRunner().invoke(clean, ["one"], input="n\n", standalone_mode=False, catch_exceptions=False)
    assert "one" in told(home)
    CliRunner().invoke(clean, ["one"], input="y\n", standalone_mode=False, catch_exceptions=False)
    assert "one" not in told(home)


def test_runs_of_every_command_are_listed_and_removed(home: Path) -> None:
    fakes_kept.write_all(home / "runs")
    found = told(home)
    assert {name: kind for name, (kind, _, _) in found.items() if name.startswith("kept-")} == {
        f"kept-{kind}": kind for kind in fakes_kept.KINDS
    }
    assert found["kept-check"][1] == "2 violations, 1 warning"
    assert found["kept-diff"][1] == "1 of 2 values differ"
    assert found["kept-run"][1] == "fails: ValueError: no"
    assert found["kept-guards"][1] == "3 graph breaks, 0 recompilations"
    assert found["kept-capture"][1] == "1 layer, 0 kernels"
    names = [f"kept-{kind}" for kind in fakes_kept.KINDS]
    CliRunner().invoke(clean, ["--yes", *names], standalone_mode=False, catch_exceptions=False)
    assert not any(name.startswith("kept-") for name in told(home))


def test_a_damaged_run_is_told_so(home: Path) -> None:
    fakes_kept.write_all(home / "runs")
    (home / "runs" / "kept-diff" / "diff.json").write_text('{"program": 7}')
    (home / "runs" / "kept-check" / "check.json").unlink()
    found = told(home)
    assert found["kept-diff"][1].startswith("damaged: diff.json")
    assert found["kept-check"][:2] == ("check", "unfinished")


def test_recordings_and_triages_are_listed_with_what_they_found(home: Path) -> None:
    for name, data in (
        ("record", {"script": {"path": "/x/train.py", "module": None}, "capsules": [1]}),
        ("triage", {"scripts": [1, 2], "faults": [1]}),
    ):
        folder = home / "runs" / f"my-{name}"
        folder.mkdir()
        mark(folder, name)
        assert told(home)[f"my-{name}"] == (name, "unfinished", "")
        (folder / f"{name}.json").write_text(json.dumps(data))
    assert told(home)["my-record"] == ("record", "1 capsule", "")
    assert told(home)["my-triage"] == ("triage", "2 scripts, distinct faults: 1", "")


@pytest.mark.parametrize("kind", [*fakes_kept.KINDS, "demo"])
def test_a_bundle_of_a_run_without_a_verdict_is_one_line(home: Path, kind: str) -> None:
    folder = home / "runs" / "kept"
    if kind == "demo":
        folder.mkdir()
        mark(folder, kind)
    else:
        fakes_kept.write(folder, kind)
    with pytest.raises(
        UsageError, match=f"kept is a run of `accel-lab {kind}`, and a bundle holds a failure"
    ):
        CliRunner().invoke(bundle, ["kept"], standalone_mode=False, catch_exceptions=False)
    assert not (folder / "bundle.zip").exists()


def test_a_folder_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        CliRunner().invoke(
            listing, ["--out", str(tmp_path / "none")], standalone_mode=False, catch_exceptions=False
        )


def test_clean_says_so_where_there_is_nothing_to_remove(home: Path) -> None:
    done = CliRunner().invoke(clean, ["--older-than", "30"], standalone_mode=False, catch_exceptions=False)
    assert done.stdout == "there is no such run: nothing to remove\n" and (home / "runs" / "one").is_dir()

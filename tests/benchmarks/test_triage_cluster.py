"""What must not differ between a triage here and one on a cluster, and what counts as asked twice."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import triage_cluster  # noqa: E402
from golden import cases_named  # noqa: E402


def journal(folder: Path, *rows: tuple[str, str]) -> Path:
    folder.mkdir()
    lines = [json.dumps({"event": event, "key": key}) for event, key in rows]
    (folder / "journal.jsonl").write_text("\n".join([json.dumps({"event": "protocol"}), *lines, ""]))
    return folder


def test_a_probe_that_was_cut_off_may_be_run_again_and_one_that_ended_may_not(tmp_path: Path) -> None:
    cut = journal(tmp_path / "1", ("running", "a"), ("running", "a"), ("ended", "a"), ("ended", "b"))
    assert triage_cluster.ended_twice([cut]) == 0
    twice = journal(tmp_path / "2", ("ended", "a"), ("ended", "a"))
    assert triage_cluster.ended_twice([cut, twice]) == 1


def test_the_order_of_faults_and_scripts_is_not_part_of_the_groups() -> None:
    one = {"stage": "dynamo", "component": "x", "members": ["a", "b"]}
    two = {"stage": "lowering", "component": None, "members": ["c"]}
    turned = {**one, "members": ["b", "a"]}
    assert triage_cluster.groups_of({"faults": [one, two]}) == triage_cluster.groups_of(
        {"faults": [two, turned]}
    )
    assert triage_cluster.groups_of({"faults": [one]}) != triage_cluster.groups_of({"faults": [one, two]})


def test_the_cases_are_there() -> None:
    assert len(cases_named(triage_cluster.DEFAULT_CASES)) == 12

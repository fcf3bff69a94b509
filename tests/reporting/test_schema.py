"""report.json keeps to its schema, for every shape of findings, and the schema to the code's own words."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.findings import SCHEMA, Findings, Repro
from accel_lab.core.outcome import Status
from accel_lab.core.probe import Program
from accel_lab.core.stages import Confidence, Level, Rung, Side, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.schema import findings_json, load_schema, plain, report_json
from fakes_run import SHAPES, FakeRun


def problems(data: object) -> list[str]:
    validator = jsonschema.Draft202012Validator(load_schema())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(data)]


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(load_schema())


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_valid(tmp_path: Path, shape: str) -> None:
    text = report_json(FakeRun(tmp_path, shape).findings)
    assert problems(json.loads(text)) == []
    assert "Infinity" not in text
    assert "NaN" not in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rung", Rung),
        ("stage", Stage),
        ("status", Status),
        ("verdict", Verdict),
        ("side", Side),
        ("level", Level),
        ("confidence", Confidence),
    ],
)
def test_enums_are_those_of_the_code(name: str, words: type) -> None:
    assert load_schema()["$defs"][name]["enum"] == [word.value for word in words]


def test_schema_names_its_version() -> None:
    assert load_schema()["properties"]["schema"] == {"const": SCHEMA}


def test_every_field_is_required_and_no_other_is_taken(tmp_path: Path) -> None:
    good = findings_json(FakeRun(tmp_path, "kernel").findings)
    assert set(load_schema()["required"]) == set(good)
    for key in good:
        assert problems({k: v for k, v in good.items() if k != key}), key
    assert problems({**good, "surplus": 1})


def test_wrong_values_are_refused(tmp_path: Path) -> None:
    good = findings_json(FakeRun(tmp_path, "kernel").findings)
    for path, value in (
        (("verdict",), "broken"),
        (("ladder", 0, "rung"), "cellar"),
        (("ladder", 0, "verdict"), True),
        (("ladder", 0, "seconds"), -1),
        (("culprit", "stage"), "inductor"),
        (("culprit", "confidence"), "certain"),
        (("baseline", "failure_rate"), 1.5),
        (("script", "sha256"), "xyz"),
        (("ablation", 0, "switch"), ""),
    ):
        data = json.loads(json.dumps(good))
        place = data
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        assert problems(data), path


def test_repros_wrong_values_are_refused(tmp_path: Path) -> None:
    good = findings_json(FakeRun(tmp_path, "rich").findings)
    assert problems(good) == []
    assert problems({**good, "repro": {**good["repro"], "surplus": 1}}) == []
    for key, value in (
        ("kind", "kernel"),
        ("verified", "yes"),
        ("nodes_after", -1),
        ("lines_after", "9"),
        ("notes", "one"),
        ("exhibits", [{"kind": "x"}]),
        ("proof", {"words": "one"}),
        ("other", {"kind": "graph"}),
        ("other", {**good["repro"]["other"], "minimal": None}),
        ("script", 1),
    ):
        assert problems({**good, "repro": {**good["repro"], key: value}}), key


def test_an_empty_reduction_is_valid(tmp_path: Path) -> None:
    """What the reducer writes when it found nothing, all fields at their first values."""
    run = FakeRun(tmp_path, "kernel")
    run.findings.repro = Repro(why_not="the script does not fail")
    assert problems(findings_json(run.findings)) == []


def test_infinite_error_is_told_as_text(tmp_path: Path) -> None:
    data = findings_json(FakeRun(tmp_path, "values").findings)
    assert data["ladder"][-1]["max_abs_error"] == "inf"


def test_empty_findings_are_valid() -> None:
    assert problems(findings_json(Findings(program=Program(path="x.py")))) == []


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(Rung)
    | st.binary(max_size=3),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=8,
)


@given(_JSON)
def test_plain_is_strict_json(value: object) -> None:
    text = json.dumps(plain(value), allow_nan=False)
    assert plain(json.loads(text)) == json.loads(text)

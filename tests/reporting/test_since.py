"""The version axis as the reader sees it: one line, the terminal, the page, and hostile text."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.releases.flip_change import FlipChange
from accel_lab.core.releases.versions import Flip, Versions
from accel_lab.core.text import for_terminal
from accel_lab.reporting.page.report import render_html
from accel_lab.reporting.page.text_budget import TextBudget, keep
from accel_lab.reporting.page.versions_section import versions_view
from accel_lab.reporting.tables.findings import versions_block
from accel_lab.reporting.words import versions as since
from fakes_run import FakeRun


def ladder(*verdicts: str) -> list[dict[str, Any]]:
    rungs = ("uncompiled", "dynamo", "fx", "kernel")
    return [{"rung": rung, "verdict": verdict} for rung, verdict in zip(rungs, verdicts, strict=True)]


def raw(**changes: Any) -> dict[str, Any]:
    details = {
        "good": {"torch": "2.4.1", "stage": "", "ladder": ladder("good", "good", "good", "good")},
        "bad": {"torch": "2.5.0", "stage": "fx_passes", "ladder": ladder("good", "good", "bad", "bad")},
        "files": {
            "said": "2 of the 9 files of fx_passes differ, in 12 lines",
            "changed": [
                {"path": "torch/a.py", "added": 3, "removed": 4, "how": "changed", "near": True},
                {"path": "torch/b.py", "added": 5, "removed": 0, "how": "only in the failing build"},
            ],
            "diffs": [{"path": "torch/a.py", "text": "-old line\n+new line"}],
            "more": 0,
        },
        "code": [{"kind": "output_code", "good": "the good code", "bad": "the bad code", "same": False}],
        "companions": {"swaps": [{"torch": "2.5.0", "pins": {"numpy": "1.26"}, "verdict": "bad"}]},
    }
    found: dict[str, Any] = {
        "line": ["2.4.0", "2.4.1", "2.5.0", "2.6.0"],
        "tested": [
            {"torch": "2.4.1", "verdict": "good", "status": "ok", "runs": 2},
            {"torch": "2.5.0", "verdict": "bad", "stage": "fx_passes", "component": "pass p", "runs": 3},
            {"torch": "2.6.0", "verdict": "skip", "why": "no wheel for this Python", "runs": 0},
        ],
        "flips": [
            {"after": "2.4.1", "at": "2.5.0", "kind": "introduced", "details": details, "notes": ["a note"]}
        ],
        "axes": {"sentence": "fx_passes since 2.5.0", "notes": []},
        "notes": ["nothing is known after 2.5.0"],
        "complete": True,
        "why": "",
        "confidence": None,
    }
    return {**found, **changes}


def versions(**changes: Any) -> Versions:
    return Versions.from_json(raw(**changes))


@pytest.mark.parametrize(
    ("flip", "line"),
    [
        ({"kind": "introduced", "after": "2.4.1", "at": "2.5.0"}, "introduced in 2.5.0 (good: 2.4.1)"),
        ({"kind": "fixed", "after": "2.8.0", "at": "2.9.0"}, "fixed in 2.9.0 (bad: 2.8.0)"),
        ({"kind": "broken_again", "after": "2.9.0", "at": "2.10.0"}, "broken again in 2.10.0 (good: 2.9.0)"),
        (
            {"kind": "introduced", "after": "2.4.1", "at": "2.6.0", "between": ["2.5.0", "2.5.1"]},
            "introduced in 2.6.0 or one before it (2.5.0, 2.5.1 could not be judged) (good: 2.4.1)",
        ),
        (
            {"kind": "fixed", "after": "2.8.0", "at": "2.9.0", "confidence": 0.991},
            "fixed in 2.9.0 (bad: 2.8.0, 99.1% sure)",
        ),
    ],
)
def test_a_flip_in_one_line(flip: dict[str, Any], line: str) -> None:
    assert since.flip_line(Flip.from_json(flip)) == line


def test_the_headline_without_a_flip_is_what_the_line_says() -> None:
    assert since.headline(versions(flips=[])) == "nothing is known after 2.5.0"
    assert since.headline(None) == ""
    assert since.headline(versions(flips=[], notes=[], why="stopped")) == "stopped"


def test_what_qualifies_the_answer_is_told_once() -> None:
    told = since.notes_of(versions(complete=False, why="interrupted", confidence=0.98))
    assert told == [
        "fx_passes since 2.5.0",
        "nothing is known after 2.5.0",
        "not complete: interrupted",
        "probability that all verdicts on the line are right: 98.0%",
    ]


def test_an_environment_in_one_line() -> None:
    row = {
        "spec": {"provider": "uv", "slim": True},
        "provenance": {"python": "3.11.7", "packages": {"numpy": "1.26.4", "click": "8"}},
        "seconds": 61.2,
        "size_bytes": 1.5e9,
        "cached": False,
    }
    assert since.environment_line(row) == "uv, slim; Python 3.11.7; numpy 1.26.4; made in 61 s; 1,500 MB"
    assert since.environment_line(None) == ""


def test_the_terminal_shows_what_was_asked(tmp_path: Path) -> None:
    found = FakeRun(tmp_path, "kernel").findings
    found.versions = versions()
    text = versions_block(found, unicode=False)
    assert text.startswith("Since when  introduced in 2.5.0 (good: 2.4.1)")
    rows = [line for line in text.splitlines() if line[:2] in ("+ ", "x ", "? ")]
    assert [line.split()[-1] for line in rows[:1]] == ["2"]
    assert "fx_passes, pass p" in rows[1]
    assert "no wheel for this Python" in rows[2]
    assert not any("2.4.0" in line for line in rows)  # never asked
    coloured = for_terminal(versions_block(found, colour=True, unicode=False))
    assert "\x1b[31mx fails\x1b[0m" in coloured and "\x1b[1mSince when\x1b[0m" in coloured
    found.versions = None
    assert versions_block(found) == ""


def test_the_section_holds_the_line_and_both_sides() -> None:
    shown = versions_view(versions(), TextBudget(keep))
    assert shown is not None
    assert [(s.torch, s.name, s.turns) for s in shown.stops] == [
        ("2.4.0", "na", False),
        ("2.4.1", "good", False),
        ("2.5.0", "bad", True),
        ("2.6.0", "skip", False),
    ]
    boxes = {(s.x, s.y) for s in shown.stops}
    assert len(boxes) == 4 and all(x + s.width <= shown.width for s in shown.stops for x in (s.x,))
    (flip,) = shown.flips
    assert [(rung, good.name, bad.name) for rung, good, bad in flip.rungs][2:] == [
        ("fx", "good", "bad"),
        ("kernel", "good", "bad"),
    ]
    assert flip.files is not None and flip.files.rows[0][3] == "the failure's traceback goes through it"
    assert flip.code[0].good.lines[0].text == "the good code"
    assert flip.swaps[0][1] == "numpy 1.26"


def test_hostile_text_in_the_axis_stays_text(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"

    def poisoned(value: Any) -> Any:
        if isinstance(value, dict):
            kept = ("verdict", "status")
            return {
                bad if key == "numpy" else key: item if key in kept else poisoned(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [poisoned(item) for item in value]
        return bad if isinstance(value, str) else value

    run = FakeRun(tmp_path, "rich")
    run.findings.versions = Versions.from_json(poisoned(raw()))
    page = render_html(run.findings, run.run_dir)
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 15


def test_an_axis_that_says_nothing_breaks_no_page(tmp_path: Path) -> None:
    run = FakeRun(tmp_path, "kernel")
    run.findings.versions = Versions.from_json({})
    assert "</html>" in render_html(run.findings, run.run_dir)
    versions_block(run.findings)


def with_details(**details: Any) -> list[dict[str, Any]]:
    sides = {"good": {}, "bad": {}}
    return [{"after": "1", "at": "2", "kind": "introduced", "details": {**sides, **details}}]


@pytest.mark.parametrize(
    ("damaged", "said"),
    [
        ({"flips": [None]}, "flips[0]: it is null, not an object"),
        ({"tested": ["x"]}, "tested[0]: it is text, not an object"),
        ({"tested": [{"torch": "2.4.1", "verdict": "fine"}]}, "tested[0].verdict: 'fine' is not a valid"),
        ({"line": None}, "line: it is null, not a list"),
        ({"axes": {"sentence": 3}}, "axes.sentence: it is a whole number, not text"),
        ({"axes": {"notes": 4}}, "axes.notes: it is a whole number, not a list"),
        ({"own": {"sentence": []}}, "own"),
        ({"metric": {"name": 1}}, "metric.name: it is a whole number, not text"),
        ({"flips": with_details(good=1)}, "flips[0].details.good: it is a whole number, not an object"),
        ({"flips": with_details(files=[])}, "flips[0].details.files: it is a list, not an object"),
        ({"flips": with_details(code=[1])}, "flips[0].details.code[0]: it is a whole number, not an object"),
        ({"flips": with_details(companions="x")}, "flips[0].details.companions: it is text, not an object"),
    ],
)
def test_a_damaged_axis_is_refused(damaged: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        versions(**damaged)


def test_what_was_not_asked_is_an_empty_object() -> None:
    row = Versions(flips=(Flip(after="1", at="2", kind="fixed"),)).to_json()
    assert (row["axes"], row["metric"], row["own"], row["flips"][0]["details"]) == ({}, {}, {}, {})
    assert Versions.from_json(row) == Versions(flips=(Flip(after="1", at="2", kind="fixed"),))


def test_an_axis_is_written_as_it_was_read() -> None:
    ladder = [
        {
            "rung": "fx",
            "verdict": "bad",
            "status": "exception",
            "signature": None,
            "seconds": 1.25,
            "max_abs_error": None,
            "torch": "2.5.0",
            "runs": 1,
            "failures": 1,
            "note": "",
        }
    ]
    side = {"torch": "2.5.0", "stage": "fx_passes", "component": "", "confidence": "proven", "ladder": ladder}
    kept = {"good": {"torch": "2.4.1"}, "bad": {**side, "warnings": []}}
    numbers = {"numbers": {"kernels": {"good": 2, "bad": None}}, "code": []}
    flips = [{**Flip(after="1", at="2", kind="fixed").to_json(), "details": {**kept, **numbers}}]
    row = {**Versions().to_json(), "flips": flips, "fixed_in": "2"}
    assert json.dumps(Versions.from_json(row).to_json()) == json.dumps(row)


CHANGE = {
    "found": True,
    "file": "torch/_refs/nn/functional/__init__.py",
    "symbol": "celu",
    "diff": "--- a (fails)\n+++ a (passes)\n-    old <b>\n+    new",
    "both_ways": True,
    "complete": True,
    "pieces": [{"file": "torch/_refs/nn/functional/__init__.py", "symbol": "celu"}],
    "runs": 7,
    "candidates": 20,
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {},
            "the change is celu in torch/_refs/nn/functional/__init__.py (exchanging it moves the "
            "failure, both ways",
        ),
        ({"both_ways": False}, "it may hide the failure rather than fix it"),
        ({"both_ways": None}, "the other direction gave no answer"),
        ({"complete": False}, "not narrowed down further in the time given"),
        (
            {"found": False, "why": "it is in compiled code"},
            "the change was not found (7 runs): it is in compiled",
        ),
    ],
)
def test_the_change_is_told_as_far_as_it_was_shown(changes: dict[str, Any], words: str) -> None:
    assert words in since.change_line(FlipChange.from_json({**CHANGE, **changes}))


def test_the_change_is_on_the_page_and_in_the_terminal(tmp_path: Path) -> None:
    data = raw()
    data["flips"][0]["change"] = CHANGE
    found = Versions.from_json(data)
    findings = FakeRun(tmp_path, "kernel").findings
    findings.versions = found
    assert "2.4.1 to 2.5.0: the change is celu in" in " ".join(versions_block(findings).split())
    view = versions_view(found, TextBudget(keep))
    assert view is not None and view.flips[0].diffs[0].text == CHANGE["diff"]
    html = render_html(findings, tmp_path)
    assert "old &lt;b&gt;" in html and "The change is celu in" in html

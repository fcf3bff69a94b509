"""The terminal's texts: aligned, within the width, coloured only when asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung, Stage
from accel_lab.reporting import terminal, words
from fakes_run import SHAPES, FakeRun


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_wider_than_the_terminal(tmp_path: Path, shape: str) -> None:
    findings = FakeRun(tmp_path, shape).findings
    text = "\n".join(
        [
            terminal.ladder_table(findings),
            terminal.ablation_table(findings),
            terminal.paragraph(findings),
        ]
    )
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text


def test_a_narrow_terminal_loses_a_column_and_not_the_failure(tmp_path: Path) -> None:
    table = terminal.ladder_table(FakeRun(tmp_path, "kernel").findings, width=80)
    assert "backend" not in table
    assert "the same failure" in table
    assert max(map(len, table.splitlines())) <= 80


def test_ladder_table(tmp_path: Path) -> None:
    lines = terminal.ladder_table(FakeRun(tmp_path, "flaky").findings).splitlines()
    assert lines[0].split() == ["verdict", "rung", "torch's", "backend", "seconds", "how", "it", "failed"]
    assert lines[2].startswith("✓ passes ")
    assert "uncompiled" in lines[2]
    assert lines[-1].startswith("✗ fails (4 of 6 runs)  kernel      inductor")
    assert lines[-1].endswith("the same failure")


def test_colour_changes_no_column(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    plain = terminal.ladder_table(findings)
    coloured = terminal.ladder_table(findings, colour=True)
    assert "\x1b[31m✗ fails\x1b[0m" in coloured
    for code in ("\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[32m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_ascii_terminals_get_ascii(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    text = terminal.ladder_table(findings, unicode=False) + terminal.ablation_table(findings, unicode=False)
    assert text.isascii()
    assert "x fails" in text


def test_paragraph_says_the_verdict_first(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "two_faults").findings
    lines = terminal.paragraph(findings).splitlines()
    assert lines[0] == "FAILS  repro.py"
    assert lines[2].startswith("Inductor's kernel stage is at fault")
    assert "fault 2: a decomposition (front end, graph level; likely)" in lines
    assert lines[-1] == "- Send the bundle."


def test_escapes_of_a_hostile_script_do_not_reach_the_terminal(tmp_path: Path) -> None:
    findings = FakeRun(tmp_path, "kernel").findings
    evil = Signature(kind="exception", type="E", message="\x1b[2J\x1b]0;title\x07 \x9b31m \x00 gone\u202e")
    findings.ladder[-1] = replace(findings.ladder[-1], signature=evil)
    findings.summary = "\x1b[31mred\x1b[0m \x07bell"
    text = terminal.ladder_table(findings) + terminal.paragraph(findings)
    assert not set(text) & set("\x1b\x07\x9b\x00\u202e")


def test_every_rung_and_stage_has_words() -> None:
    assert set(words.RUNS) == set(Rung)
    assert set(words.STAGES) == set(Stage)

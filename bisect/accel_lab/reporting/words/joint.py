"""Renders the joint report as Markdown, with sentences that the page shares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from accel_lab.core.text import counted
from accel_lab.reporting.runs.joint import HEAD, RUNS_HEAD

COMPARED_HEAD = ("model", "backend", "what")


def headline(data: Mapping[str, Any]) -> str:
    """Returns the headline: ``3 runs of 2 models``."""
    return f"{counted(len(data['runs']), 'run')} of {counted(len(data['models']), 'model')}"


def compared(comparison: Mapping[str, Any]) -> str:
    """Summarises the comparison of two runs in a sentence."""
    if not comparison["shared"]:
        return "the two runs have no model on the same backend in common"
    count = len(comparison["differences"])
    where = f"{counted(comparison['shared'], 'model')} that both runs have"
    return f"{counted(count, 'difference')} in {where}" if count else f"no difference in {where}"


def cells(row: Mapping[str, Any]) -> list[list[str]]:
    """Returns a model's cells under ``HEAD``; each is a list of what the runs say."""
    return [
        [row["model"]],
        *([f"{said['where']}: {said['text']}" for said in row[name]] for name in HEAD[1:]),
    ]


def markdown(data: Mapping[str, Any]) -> str:
    """Returns the report as Markdown text."""
    lines = [f"# accel-lab: {headline(data)}", ""]
    lines += _table(HEAD, ([_joined(cell) for cell in cells(row)] for row in data["models"]))
    lines += ["", "## Runs", ""]
    lines += _table(RUNS_HEAD, ([_safe(run["name"]), *map(_safe, _run(run))] for run in data["runs"]))
    comparison = data["comparison"]
    if comparison is not None:
        head = (*COMPARED_HEAD, comparison["first"], comparison["second"])
        lines += ["", "## Comparison", "", f"{_safe(compared(comparison))}.", ""]
        rows = (
            [_safe(row[name]) for name in (*COMPARED_HEAD, "first", "second")]
            for row in comparison["differences"]
        )
        lines += _table(head, rows) if comparison["differences"] else []
        lines += [f"- {_safe(line)}" for line in alone(comparison)]
    return "\n".join(lines) + "\n"


def alone(comparison: Mapping[str, Any]) -> list[str]:
    """Lists what only one of two runs has, one line per run."""
    return [
        f"only {comparison[which]} has {', '.join(comparison[f'only_{which}'])}"
        for which in ("first", "second")
        if comparison[f"only_{which}"]
    ]


def _run(run: Mapping[str, Any]) -> tuple[str, str, str]:
    return run["kind"], run["torch"], run["verdict"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(_safe(cell) if line is head else cell for cell in line)} |" for line in lines]


def _joined(said: Sequence[str]) -> str:
    return "<br>".join(map(_safe, said))


def _safe(text: str) -> str:
    """Escapes untrusted text for one table cell: no pipe, no line break, no markup."""
    text = " ".join(str(text).split())
    for letter in "\\`*_[]#|":
        text = text.replace(letter, f"\\{letter}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

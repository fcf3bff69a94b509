"""Renders the joint report as one page without scripts: models by constraints, accuracy and stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accel_lab.reporting.runs.joint import HEAD, RUNS_HEAD
from accel_lab.reporting.words import joint as words

from .files import page
from .text_budget import Redact, TextBudget, keep

#: Maximum rows of each table; the JSON has all.
MOST_ROWS = 500


def render(
    data: Mapping[str, Any], *, redact: Redact = keep, link: Callable[[Mapping[str, Any]], str] | None = None
) -> str:
    """Returns the page as text, with links to the runs' pages; ``link`` gives other addresses."""
    texts = TextBudget(redact)

    def say(text: Any) -> str:
        return texts.say(text, limit=300)

    comparison = data["comparison"]
    return page(
        "joint.html.j2",
        "report.css",
        "grid.css",
        "joint.css",
        headline=say(words.headline(data)),
        head=HEAD,
        models=[
            [[say(line) for line in cell] for cell in words.cells(row)] for row in data["models"][:MOST_ROWS]
        ],
        runs_head=RUNS_HEAD,
        runs=[
            {
                "cells": [say(run[name]) for name in ("name", "kind", "torch", "verdict")],
                "page": (link or _file)(run),
            }
            for run in data["runs"][:MOST_ROWS]
        ],
        comparison=None
        if comparison is None
        else {
            "sentence": say(words.compared(comparison)),
            "head": [*words.COMPARED_HEAD, say(comparison["first"]), say(comparison["second"])],
            "rows": [
                [say(row[name]) for name in (*words.COMPARED_HEAD, "first", "second")]
                for row in comparison["differences"][:MOST_ROWS]
            ],
            "alone": [say(line) for line in words.alone(comparison)],
        },
        schema=data["schema"],
    )


def _file(run: Mapping[str, Any]) -> str:
    return Path(run["folder"], run["page"]).absolute().as_uri() if run["page"] else ""

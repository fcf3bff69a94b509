"""Renders matrix.html: one file without scripts or external resources; cells link to their runs' folders."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from accel_lab.core.machine.files import write_atomic
from accel_lab.reporting.words import matrix as words
from accel_lab.reporting.words import versions

from .files import page
from .text_budget import Redact, TextBudget, keep


def render(grid: Mapping[str, Any], picture: bytes | None = None, *, redact: Redact = keep) -> str:
    """Returns the page as text; ``picture`` is the PNG shown under the table."""
    texts = TextBudget(redact)
    say = texts.say
    script = grid.get("script") or {}
    columns = words.columns_of(grid)
    return page(
        "grid.html.j2",
        "report.css",
        "grid.css",
        mark=words.mark_of(grid),
        name=say(Path(str(script.get("path") or script.get("module") or "script")).name),
        headline=say(words.headline(grid)),
        failure=say(words.failure(grid), limit=1000),
        notes=[say(note) for note in words.notes_of(grid)],
        columns=[(say(name, limit=60), say(words.meaning(name), limit=200)) for name in columns],
        rows=[_row(row, columns, texts) for row in words.rows_of(grid)],
        picture="data:image/png;base64," + base64.b64encode(picture).decode() if picture else "",
        environments=[
            (say(name, limit=80), say(versions.environment_line(made), limit=400))
            for name, made in (grid.get("environments") or {}).items()
        ],
        schema=say(grid.get("schema", "")),
    )


def _row(row: words.RowWords, columns: list[str], texts: TextBudget) -> dict[str, Any]:
    return {
        "torch": texts.say(row.torch, limit=80),
        "starts": texts.say(row.starts, limit=60),
        "cells": [
            {
                "column": texts.say(column, limit=60),
                "mark": cell.mark,
                "said": texts.say(cell.said, limit=300),
                "seconds": cell.seconds,
                "link": _link(cell.folder),
            }
            for column, cell in zip(columns, row.cells, strict=True)
        ],
    }


def _link(folder: str) -> str:
    """Returns a link below the page's own folder; empty for any other path."""
    if not folder or folder.startswith("/") or ".." in folder.split("/") or ":" in folder:
        return ""
    return quote(folder) + "/"


def write(grid: Mapping[str, Any], picture: bytes | None, path: Path) -> None:
    """Writes the page atomically."""
    write_atomic(path, render(grid, picture))

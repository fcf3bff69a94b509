"""Renders diff.html: one file without scripts or external resources; the values of two runs, and pictures."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accel_lab.core.machine.files import write_atomic
from accel_lab.reporting.words import diff as words

from .diff_plots import Picture
from .files import page
from .text_budget import Redact, TextBudget, keep

#: Maximum rows of the page's table.
MOST_ROWS = 2000
#: Maximum operators, and modules, in the tables of layers.
MOST_LAYERS = 120


def render(diff: Mapping[str, Any], pictures: Sequence[Picture], *, redact: Redact = keep) -> str:
    """Returns the page as text."""
    texts = TextBudget(redact)
    say = texts.say
    rows = list(diff["rows"])
    return page(
        "diff.html.j2",
        "report.css",
        "grid.css",
        name=say(diff["program"]),
        differs=diff["summary"]["differ"] > 0,
        headline=say(words.headline(diff)),
        notes=[say(note, limit=600) for note in words.notes(diff)],
        head=words.HEAD,
        rows=[
            {
                "cells": [say(cell, limit=200) for cell in words.cells(row)],
                "same": row["same"],
                "detail": say("; ".join(filter(None, (row["detail"], words.specials(row)))), limit=400),
            }
            for row in rows[:MOST_ROWS]
        ],
        left_out=max(0, len(rows) - MOST_ROWS),
        worst=[
            {
                "place": say(f"{row['phase']} {row['path']}", limit=200),
                "places": [
                    (str(place["index"]), say(place["got"], limit=60), say(place["want"], limit=60))
                    for place in row["metrics"]["worst"]
                ],
            }
            for row in rows
            if not row["same"] and row["metrics"]
        ][:12],
        pictures=[
            {
                "title": say(picture.title, limit=200),
                "words": say(picture.words, limit=600),
                "data": "data:image/png;base64," + base64.b64encode(picture.png).decode(),
            }
            for picture in pictures
        ],
        layers=None if not diff.get("layers") else _layers(diff["layers"], texts),
        test=say(diff["test"]),
        reference=say(diff["reference"]),
        schema=say(diff["schema"]),
    )


def _layers(found: Mapping[str, Any], texts: TextBudget) -> dict[str, Any]:
    def shown(rows: Sequence[Sequence[str]]) -> list[list[str]]:
        return [[texts.say(cell, limit=200) for cell in row] for row in rows[:MOST_LAYERS]]

    rows = words.layer_rows(found)
    first = next((place for place, row in enumerate(rows) if row[0] == "first"), 0)
    start = max(0, first - MOST_LAYERS // 2)
    return {
        "sentences": [texts.say(line, limit=400) for line in words.layers(found)],
        "modules_head": words.MODULES_HEAD,
        "modules": shown(words.module_rows(found)),
        "head": words.LAYERS_HEAD,
        "rows": shown(rows[start:]),
        "left_out": max(0, len(rows) - MOST_LAYERS),
    }


def write(diff: Mapping[str, Any], pictures: Sequence[Picture], folder: Path) -> None:
    """Writes ``diff.html`` atomically, and the pictures' files."""
    place = folder / "pictures"
    place.mkdir(exist_ok=True)
    for picture in pictures:
        (place / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
        (place / f"{picture.name}.png").write_bytes(picture.png)
    write_atomic(folder / "diff.html", render(diff, pictures))

"""Renders guards.html: one file without scripts or external resources; breaks, guards, recompilations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accel_lab.core.machine.files import write_atomic
from accel_lab.inspection.compile_report import SCHEMA, CompileReport
from accel_lab.reporting.words import guards as words

from .files import page
from .text_budget import Redact, TextBudget, keep

#: Maximum entries of each section; guards.json has all.
MOST_ENTRIES = 200


def render(report: CompileReport, program: str, torch: str, *, redact: Redact = keep) -> str:
    """Returns the page as text."""
    texts = TextBudget(redact)
    sections = [
        ("breaks", "Graph breaks", words.breaks(report)),
        ("recompilations", "Recompilations", words.recompilations(report)),
        ("compilations", "Compilations and their guards", words.compilations(report)),
    ]
    return page(
        "guards.html.j2",
        "report.css",
        "grid.css",
        name=texts.say(program),
        torch=texts.say(torch),
        again=bool(report.recompilations or report.breaks),
        headline=texts.say(words.headline(report)),
        notes=[texts.say(note, limit=300) for note in words.notes(report)],
        head=words.COSTLIEST_HEAD,
        costliest=[[texts.say(cell, limit=200) for cell in row] for row in words.costliest(report)],
        sections=[
            {
                "id": key,
                "title": title,
                "entries": _entries(entries[:MOST_ENTRIES], texts),
                "left_out": max(0, len(entries) - MOST_ENTRIES),
            }
            for key, title, entries in sections
        ],
        schema=SCHEMA,
    )


def _entries(entries: Sequence[words.Entry], texts: TextBudget) -> list[dict[str, object]]:
    return [
        {
            "title": texts.say(entry.title, limit=300),
            "place": texts.say(entry.place, limit=200),
            "source": texts.say(entry.source, limit=300),
            "details": [texts.say(detail, limit=400) for detail in entry.details],
            "rewrite": entry.rewrite,
        }
        for entry in entries
    ]


def write(report: CompileReport, program: str, torch: str, folder: Path) -> None:
    """Writes ``guards.html`` atomically."""
    write_atomic(folder / "guards.html", render(report, program, torch))

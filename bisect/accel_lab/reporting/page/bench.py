"""Renders bench.html: one file without scripts or external resources; tables, pictures, environment."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from accel_lab.core.benchmark import SCHEMA, Benchmark
from accel_lab.reporting.words import bench as words

from .bench_plots import Plot
from .files import page
from .text_budget import TextBudget, keep


def render(benchmark: Benchmark, plots: Sequence[Plot], backends: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the page as text; ``backends`` are pairs of a name and a description."""
    texts = TextBudget(keep)
    say = texts.say
    verdict, mark = words.verdict(benchmark)
    return page(
        "bench.html.j2",
        "report.css",
        "bench.css",
        verdict=verdict,
        mark=mark,
        summary=_sentence(say(words.summary(benchmark))),
        facts=[(name, say(value, limit=400)) for name, value in _facts(benchmark)],
        cautions=[say(line) for line in words.cautions(benchmark)],
        compared=say(words.compared_title(benchmark), limit=400) if benchmark.compared else "",
        changes=[say(line, limit=400) for line in words.changes(benchmark)],
        models=[_model(benchmark, model, texts) for model in benchmark.models],
        plots=[
            {"title": plot.title, "words": say(plot.words, limit=2000), "source": _source(plot)}
            for plot in plots
        ],
        meanings=[(" ".join(filter(None, c.head)).replace("- ", ""), c.means) for c in words.COLUMNS],
        backends=[(say(name), say(what)) for name, what in backends],
        environment=[(key, text) for key, text in texts.pairs(benchmark.environment) if text],
        schema=SCHEMA,
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _facts(benchmark: Benchmark) -> list[tuple[str, str]]:
    settings, environment = benchmark.settings, benchmark.environment
    rows = (
        ("Step", "training: forward, backward, SGD" if settings.get("train") else "inference"),
        ("Size", settings.get("size")),
        ("Type", settings.get("dtype")),
        ("Device", environment.get("device") or settings.get("device")),
        ("Torch", environment.get("torch")),
        ("Python", environment.get("python")),
        ("Threads", environment.get("threads")),
        ("Seed", settings.get("seed")),
        ("Took", f"{benchmark.seconds:.0f} s"),
    )
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _model(benchmark: Benchmark, model: str, texts: TextBudget) -> dict[str, Any]:
    say, rows = texts.say, benchmark.of(model)
    with_backend = [row for row in rows if row.backend]
    columns = [column for column in words.COLUMNS if any(column.cell(row) for row in with_backend)]
    return {
        "name": say(model),
        "title": say(words.title(benchmark, model)),
        "columns": columns,
        "rows": [
            {
                "backend": say(row.backend),
                "mark": words.MARKS[row.standing],
                "cells": [column.cell(row) for column in columns],
            }
            for row in with_backend
        ],
        "remarks": [
            (say(row.backend), say(remark, limit=600)) for row in rows for remark in words.remarks(row)
        ],
        "differing": [
            (say(row.backend), say(line, limit=400))
            for row in rows
            for line in (row.distance.differing if row.distance else ())
        ],
    }


def _source(plot: Plot) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(plot.svg.encode()).decode()

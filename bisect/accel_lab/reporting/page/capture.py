"""Renders index.html of a capture: one file without scripts or external resources, with every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.machine.files import write_atomic
from accel_lab.inspection.captured import SCHEMA, Captured, File, Kernel
from accel_lab.inspection.layers import Layer, amount
from accel_lab.reporting.words import capture as words

from . import graph_picture, memory_picture
from .files import page
from .text_budget import Redact, TextBudget, keep

#: Maximum entries of each table; capture.json and the files have all.
MOST_OPERATORS, MOST_LINES, MOST_FILES = 40, 400, 60
#: Maximum characters of all pictures in the page; later pictures are links.
MOST_PICTURES = 3_000_000


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """The picture of a layer, for the page and as a file; ``cut``: the graph is larger."""

    inline: str
    path: str
    cut: bool


def write(captured: Captured, folder: Path) -> None:
    """Writes ``index.html`` and the pictures of the graphs, each atomically."""
    drawn: dict[int, Drawn] = {}
    room = MOST_PICTURES
    for layer in captured.layers:
        text = captured.texts.get(layer.order)
        if not layer.nodes or text is None:
            continue
        path = f"{text.path.rsplit('.', 1)[0]}.svg"
        write_atomic(folder / path, graph_picture.picture(layer.nodes, title=layer.title, alone=True))
        inline = graph_picture.picture(layer.nodes, title=layer.title)
        room -= len(inline)
        cut = len(layer.nodes) + layer.left_out > graph_picture.MOST_NODES
        drawn[layer.order] = Drawn(inline=inline if room >= 0 else "", path=path, cut=cut)
    write_atomic(folder / "index.html", render(captured, drawn))


def render(captured: Captured, drawn: dict[int, Drawn], *, redact: Redact = keep) -> str:
    """Returns the page as text."""
    texts = TextBudget(redact)
    say = texts.say
    return page(
        "capture.html.j2",
        "report.css",
        "grid.css",
        "capture.css",
        name=say(captured.program),
        failed=bool(captured.failed),
        headline=say(words.headline(captured)),
        notes=[say(note, limit=600) for note in words.notes(captured)],
        estimate=words.ESTIMATE,
        head=words.HEAD,
        layers=[_layer(layer, captured, drawn.get(layer.order), texts) for layer in captured.layers],
        kernels=[_kernel(kernel, texts) for kernel in captured.kernels],
        code=_files(captured.code, texts),
        mock=_files(captured.mock, texts),
        tlparse=captured.tlparse,
        schema=SCHEMA,
    )


def _layer(layer: Layer, captured: Captured, drawn: Drawn | None, texts: TextBudget) -> dict[str, Any]:
    say = texts.say
    text = captured.texts.get(layer.order)
    memory = layer.memory
    peak = layer.nodes[memory.peak_at] if memory.peak else None
    return {
        "id": f"layer-{layer.order}",
        "cells": [say(cell, limit=200) for cell in words.row(layer)],
        "title": say(layer.title),
        "operators": [
            (say(name, limit=120), count) for name, count in layer.operators.most_common(MOST_OPERATORS)
        ],
        "more_operators": max(0, len(layer.operators) - MOST_OPERATORS),
        "inputs": [
            (say(node.name, limit=80), say(", ".join(t.text for t in node.tensors), limit=200))
            for node in layer.inputs[:MOST_OPERATORS]
        ],
        "more_inputs": max(0, len(layer.inputs) - MOST_OPERATORS),
        "memory": memory_picture.picture(memory.held) if memory.peak else "",
        "peak": f"{amount(memory.peak)} at {say(peak.name, limit=80)}, {amount(memory.inputs)} of it inputs"
        if peak is not None
        else "",
        "peak_source": say(f"{peak.source} {peak.code}".strip(), limit=300) if peak is not None else "",
        "picture": drawn.inline if drawn is not None else "",
        "picture_path": drawn.path if drawn is not None else "",
        "picture_cut": drawn is not None and drawn.cut,
        "text": texts.block(f"text ({text.path})", text.text) if text is not None else None,
        "path": text.path if text is not None else "",
    }


def _kernel(kernel: Kernel, texts: TextBudget) -> dict[str, Any]:
    rows: list[tuple[int, str, str]] = []
    before = ""
    room = texts.room()
    for number, line in enumerate(kernel.lines(), 1):
        source = "; ".join(_short(one) for one in line.sources)
        shown = texts.say(line.text, limit=400)
        room -= len(shown)
        if number > MOST_LINES or room < 0:
            break
        rows.append((number, shown, texts.say("″" if source and source == before else source, limit=300)))
        before = source
    texts.taken(sum(len(code) + len(source) for _, code, source in rows))
    return {
        "title": texts.say(f"{kernel.file} ({kernel.language})", limit=200),
        "rows": rows,
        "left_out": max(0, len(kernel.text.splitlines()) - len(rows)),
    }


def _short(source: str) -> str:
    """Returns ``script.py:12 y = x + 1``, without folders."""
    place, _, code = source.partition(" ")
    return f"{place.rsplit('/', 1)[-1]} {code}".strip()


def _files(files: Sequence[File], texts: TextBudget) -> dict[str, Any]:
    shown = [
        {
            "path": file.path,
            "title": texts.say(file.title, limit=200),
            "text": texts.block(file.path, file.text),
        }
        for file in files[:MOST_FILES]
    ]
    return {"shown": shown, "left_out": max(0, len(files) - MOST_FILES)}

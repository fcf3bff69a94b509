"""Writes each graph's text forms: the graph, the loop IR, one JSON spec a kernel, the statistics.

``<folder>/<program>/graph.txt, loop_ir.txt, ..., specs/000_<kernel>.json, program.txt``; the transfer log is
written by the transfer itself into the same folder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from .ir.program import Program
from .runtime.run_statistics import Statistics

STATISTICS = "statistics.json"


def write_program(folder: str, program: Program) -> Path:
    """Write a program's texts and specs; the folder that holds them, a new one for every program."""
    base = re.sub(r"[^\w.-]", "_", program.name) or "graph"
    place = Path(folder, base)
    number = 0
    while place.exists():
        number += 1
        place = Path(folder, f"{base}-{number}")
    specs = place / "specs"
    specs.mkdir(parents=True)
    for name, text in program.texts.items():
        (place / name).write_text(text, "utf-8", "backslashreplace")
    for position, spec in enumerate(program.kernels):
        name = re.sub(r"[^\w.-]", "_", spec.name)[:80]
        (specs / f"{position:03d}_{name}.json").write_text(spec.to_text() + "\n", "utf-8")
    (place / "program.txt").write_text(describe(program), "utf-8", "backslashreplace")
    return place


def describe(program: Program) -> str:
    """A program as text: its memory, its steps and its outputs."""
    lines = [
        f"program {program.name}: front end {program.front_end}, {len(program.kernels)} kernels, "
        f"{program.arena_bytes} bytes of arena ({program.resident_bytes} resident)",
        *(
            f"buffer {buffer.name}: {buffer.layout.format} {list(buffer.layout.size)} "
            f"order {list(buffer.layout.order)} at {buffer.address}, {buffer.layout.bytes} bytes"
            for buffer in program.buffers.values()
        ),
        *(
            f"on the host: {call.target} for {call.node}: {call.reason} {call.source}".rstrip()
            for call in program.fallbacks
        ),
        *(f"output {position}: {output}" for position, output in enumerate(program.outputs)),
    ]
    return "\n".join(lines) + "\n"


def write_statistics(folder: str, statistics: Statistics) -> None:
    """Write the counters so far."""
    path = Path(folder, STATISTICS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(statistics.to_json(), indent=1) + "\n", "utf-8")

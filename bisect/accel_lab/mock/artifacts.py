"""Writes a graph's artifacts: the graph, the loop IR, one JSON spec per kernel, the statistics.

The files are ``<folder>/<program>/graph.txt, loop_ir.txt, ..., specs/000_<kernel>.json, program.txt``. The
transfer module writes its log to the same folder.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from .ir.program import Program
from .runtime.run_statistics import Statistics

STATISTICS = "statistics.json"


def write_program(folder: str, program: Program) -> Path:
    """Writes a program's texts and specs to a new folder, which it returns."""
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
    """Formats a program as text: its memory, host calls and outputs."""
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
    """Writes the current statistics to ``statistics.json``."""
    path = Path(folder, STATISTICS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(statistics.to_json(), indent=1) + "\n", "utf-8")

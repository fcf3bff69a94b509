"""Describes a capture: the headline and the table of layers, for terminal and page."""

from __future__ import annotations

from collections import Counter

from tabulate import tabulate

from accel_lab.core.text import counted, shorten
from accel_lab.inspection.captured import Captured
from accel_lab.inspection.layers import Layer, amount

HEAD = ("layer", "nodes", "operators", "dtypes", "inputs", "peak memory")
#: Maximum characters of the failure; capture.json has all.
MOST_FAILED = 240
#: Note on every memory figure.
ESTIMATE = (
    "Memory is an estimate: the sizes of the graph's tensors from their making to their last use. Inputs are "
    "held throughout, views take nothing. Fusion, buffer reuse and workspaces are not in it"
)
NO_TLPARSE = (
    "tlparse, whose page maintainers ask for, is not installed: run pip install tlparse in the environment "
    "of accel-lab"
)


def headline(captured: Captured) -> str:
    """Counts the graphs, layers and kernels."""
    graphs = sum(layer.kind == "dynamo" for layer in captured.layers)
    parts = [
        counted(graphs, "graph"),
        counted(len(captured.layers), "layer"),
        counted(len(captured.kernels), "generated kernel"),
    ]
    if captured.mock:
        specs = sum("/specs/" in file.path for file in captured.mock)
        parts[-1] = counted(specs, "kernel spec") + " of the mock accelerator"
    backend = "the mock accelerator" if captured.backend == "mock" else "the script's own backend"
    return f"{', '.join(parts)} (torch {captured.torch}, {backend})"


def notes(captured: Captured) -> list[str]:
    """Returns notes that a reader needs before the figures."""
    lines = []
    if captured.failed:
        failed = shorten(captured.failed, MOST_FAILED)
        lines.append(f"The script failed: {failed}. The layers are those that came before")
    return [*lines, *captured.notes]


def row(layer: Layer) -> tuple[str, ...]:
    """Returns a layer as a row under ``HEAD``."""
    if not layer.is_graph:
        return (layer.title, counted(layer.parts or 0, "loop nest"), "", "", "", "")
    memory = layer.memory
    calls = layer.operators
    inputs = [tensor for node in layer.inputs for tensor in node.tensors]
    return (
        layer.title,
        str(len(layer.nodes) + layer.left_out),
        f"{sum(calls.values())} calls of {len(calls)}",
        listed(layer.dtypes, 3),
        f"{counted(len(inputs), 'tensor')}, {amount(memory.inputs)}",
        amount(memory.peak) + (" or more" if memory.unknown or layer.left_out else ""),
    )


def listed(counts: Counter[str], most: int) -> str:
    """Lists counts: ``12 float32, 1 int64``; at most ``most``, the rest is counted."""
    shown = [f"{count} {name}" for name, count in counts.most_common(most)]
    more = len(counts) - most
    return ", ".join([*shown, *([f"{more} more"] if more > 0 else [])])


def terminal(captured: Captured) -> str:
    """Returns the text for the terminal."""
    table = tabulate([row(layer) for layer in captured.layers], headers=HEAD, disable_numparse=True)
    lines = [f"{captured.program}: {headline(captured)}", "", table, "", f"{ESTIMATE}."]
    return "\n".join([*lines, *(f"{note}." for note in notes(captured))])

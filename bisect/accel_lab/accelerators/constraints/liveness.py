"""Computes a graph's peak memory by liveness analysis, from each tensor's creation to its last use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .catalogue import Constraint, Finding, GraphView, node_tensors
from .values import amount, bytes_of, storage_of


@dataclass(frozen=True, kw_only=True)
class Peak:
    """The peak of one graph: its node, the bytes alive there, and the three largest live tensors."""

    node: torch.fx.Node
    bytes: int
    largest: tuple[tuple[str, int], ...]


def peak_memory(graph_module: torch.fx.GraphModule, stick_bytes: int = 128) -> Peak | None:
    """Returns the memory peak of one graph; None if the graph holds no bytes.

    Inputs and attributes live for the whole graph. Views share their base's storage. Outputs live to the end.
    Data-dependent sizes count as 0 bytes.
    """
    nodes = list(graph_module.graph.nodes)
    born: dict[Any, int] = {}
    last: dict[Any, int] = {}
    size: dict[Any, int] = {}
    owner: dict[Any, str] = {}
    kept: set[Any] = set()
    for place, node in enumerate(nodes):
        for tensor in node_tensors(node):
            key = storage_of(tensor)
            if key not in born:
                born[key], last[key], owner[key] = place, place, node.name
                size[key] = bytes_of(tensor, stick_bytes) or 0
            if node.op in ("placeholder", "get_attr"):
                kept.add(key)
        for used in node.all_input_nodes:
            for tensor in node_tensors(used):
                last[storage_of(tensor)] = place
    for key in kept:
        last[key] = len(nodes)
    held, best = 0, None
    starts: dict[int, list[Any]] = {}
    ends: dict[int, list[Any]] = {}
    for key in born:
        starts.setdefault(born[key], []).append(key)
        ends.setdefault(last[key], []).append(key)
    for place in range(len(nodes)):
        held += sum(size[key] for key in starts.get(place, ()))
        if held and (best is None or held > best[1]):
            best = (place, held)
        held -= sum(size[key] for key in ends.get(place, ()))
    if best is None:
        return None
    alive = [(owner[key], size[key]) for key in born if born[key] <= best[0] <= last[key]]
    alive.sort(key=lambda entry: -entry[1])
    return Peak(node=nodes[best[0]], bytes=best[1], largest=tuple(alive[:3]))


@dataclass(frozen=True, kw_only=True)
class PeakMemoryConstraint(Constraint):
    """All tensors alive at once must fit into device memory; checked on ATen graphs only."""

    limit: int
    stick_bytes: int = 128
    name: str = "peak_memory"
    severity: str = "error"

    def graph_findings(self, view: GraphView) -> Iterator[Finding]:
        if view.level != "aten":
            return
        peak = peak_memory(view.graph_module, self.stick_bytes)
        if peak is not None and peak.bytes > self.limit:
            largest = ", ".join(f"{name} ({amount(taken)})" for name, taken in peak.largest)
            yield Finding(
                node=peak.node,
                message=f"{amount(peak.bytes)} are on the device at once, it has {amount(self.limit)}; "
                f"the largest are {largest}",
                change="use a smaller batch, recompute instead of keeping, or split the region",
            )

    def findings(
        self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView
    ) -> Iterable[Finding]:
        return ()

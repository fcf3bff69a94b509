"""Cuts a Dynamo graph down to the operators that violate a constraint, with their operands as inputs.

An operator of AOTAutograd's graph is matched to Dynamo's by its stack trace. The caller runs the resulting
script to find out whether it still violates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .catalogue import Violation
from .values import attribute, tensors, traced

_CALLS = ("call_function", "call_method", "call_module")


@dataclass(frozen=True, kw_only=True)
class ReducedGraph:
    """A subgraph that runs standalone: ``operators`` of the original ``of`` operators, and its ``inputs``."""

    graph_module: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    operators: int
    of: int


def trace_of(graph_module: torch.fx.GraphModule, violation: Violation) -> str:
    """Returns the stack trace of the violating node; empty if the node or its trace is missing."""
    return next((_trace(node) for node in graph_module.graph.nodes if node.name == violation.node), "")


def reduced(graph_module: torch.fx.GraphModule, violation: Violation, trace: str = "") -> ReducedGraph | None:
    """Returns the violating operators as a graph; None if they cannot be found or the graph gets no smaller.

    ``trace`` is the stack trace of the node if the violation is in one of AOTAutograd's graphs.
    """
    nodes = list(graph_module.graph.nodes)
    calls = [node for node in nodes if node.op in _CALLS]
    chosen = _violating(nodes, violation, trace)
    if not chosen or not _closed(chosen):
        return None
    if len(chosen) >= len(calls):
        return None
    return _cut(graph_module, [node for node in nodes if node in chosen], len(calls))


def _violating(nodes: Iterable[torch.fx.Node], violation: Violation, trace: str) -> set[torch.fx.Node]:
    """The Dynamo nodes of a violation; an input is represented by its first user."""
    if violation.level == "dynamo":
        found = [node for node in nodes if node.name == violation.node]
        readers = (node if node.op in _CALLS else next(iter(node.users), node) for node in found)
        return {node for node in readers if node.op in _CALLS}
    return {node for node in nodes if trace and node.op in _CALLS and _trace(node) == trace}


def _trace(node: torch.fx.Node) -> str:
    return str(node.meta.get("stack_trace") or node.stack_trace or "")


def _closed(chosen: set[torch.fx.Node]) -> bool:
    """Adds to ``chosen`` the producers of non-tensor operands (e.g. tuples); False if one is no operator."""
    waiting = list(chosen)
    while waiting:
        for source in waiting.pop().all_input_nodes:
            if source in chosen or source.op in ("placeholder", "get_attr"):
                continue
            if not isinstance(traced(source), (torch.Tensor, int, float, torch.SymInt)):
                if source.op not in _CALLS:
                    return False
                chosen.add(source)
                waiting.append(source)
    return True


def _cut(graph_module: torch.fx.GraphModule, chosen: list[torch.fx.Node], of: int) -> ReducedGraph:
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, torch.fx.Node] = {}
    inputs: dict[torch.fx.Node, Any] = {}
    for node in chosen:
        for source in node.all_input_nodes:
            if source not in made and source.op != "get_attr" and source not in chosen:
                inputs[source] = traced(source)
                made[source] = graph.placeholder(source.name)
    held = torch.nn.Module()
    for node in chosen:
        for source in node.all_input_nodes:
            if source not in made and source.op == "get_attr":
                made[source] = graph.get_attr(_hold(held, graph_module, str(source.target)))
        if node.op == "call_module":
            _hold(held, graph_module, str(node.target))
        made[node] = graph.node_copy(node, lambda argument: made[argument])
    inner = {source for node in chosen for source in node.all_input_nodes}
    ends = [node for node in chosen if node not in inner and tensors(traced(node))] or chosen[-1:]
    graph.output(tuple(made[node] for node in ends))
    return ReducedGraph(
        graph_module=torch.fx.GraphModule(held, graph),
        inputs=tuple(inputs.values()),
        operators=len(chosen),
        of=of,
    )


def _hold(held: torch.nn.Module, graph_module: torch.fx.GraphModule, path: str) -> str:
    """Copies an attribute to the cut graph. Nested paths are left out: :mod:`.repro` refuses them."""
    if "." not in path and not hasattr(held, path):
        setattr(held, path, attribute(graph_module, path))
    return path

"""Specializes a graph with symbolic sizes for one set of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._pytree import tree_any, tree_map

from .program import HostCall, Output, Program, Ref

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class DataDependent(Exception):
    """Raised if a graph has data-dependent sizes, so that it cannot be lowered before it runs."""


class WholeGraph:
    """Wraps a graph as one operator that runs on the host."""

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        self.graph_module = graph_module

    def __call__(self, *args: Any) -> Any:
        return self.graph_module(*args)

    def __str__(self) -> str:
        return "whole graph"


def is_symbolic(graph_module: torch.fx.GraphModule) -> bool:
    """Whether any traced value of a graph is symbolic or has a symbolic size, stride or offset."""
    return any(tree_any(_has_symbols, node.meta.get("val")) for node in graph_module.graph.nodes)


def _has_symbols(value: Any) -> bool:
    if isinstance(value, _SYMBOLS):
        return True
    if not isinstance(value, torch.Tensor):
        return False
    numbers: tuple[Any, ...] = tuple(value.shape)
    if value.layout == torch.strided:
        numbers += (*value.stride(), value.storage_offset())
    return any(isinstance(number, _SYMBOLS) for number in numbers)


def make_concrete(graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> torch.fx.GraphModule:
    """Returns the graph specialized for these inputs, without nodes that only compute numbers.

    The placeholders stay the same. Raises DataDependent.
    """
    graph = torch.fx.Graph()
    made: dict[torch.fx.Node, Any] = {}
    values: dict[torch.fx.Node, Any] = {}
    waiting = iter(inputs)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        for node in graph_module.graph.nodes:
            if node.op == "output":
                graph.output(tree_map(lambda leaf: made.get(leaf, leaf), node.args[0], is_leaf=is_node))
                continue
            if node.op == "placeholder":
                value = _faked(mode, next(waiting))
            elif node.op == "get_attr":
                value = _faked(mode, attrgetter(str(node.target))(graph_module))
            else:
                args, kwargs = tree_map(
                    lambda leaf: values.get(leaf, leaf), (node.args, node.kwargs), is_leaf=is_node
                )
                try:
                    value = node.target(*args, **kwargs)  # type: ignore[operator]
                except (DataDependentOutputException, DynamicOutputShapeException) as error:
                    raise DataDependent(f"{node.target} gives what only the data knows") from error
            values[node] = value
            number = isinstance(value, (bool, int, float)) or value is None
            if number and node.op not in ("placeholder", "get_attr"):
                made[node] = value
                continue
            copy = graph.node_copy(node, lambda old: made[old])
            copy.meta = {**node.meta, "val": value}
            made[node] = value if number else copy
    return torch.fx.GraphModule(graph_module, graph)


def _faked(mode: FakeTensorMode, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return mode.from_tensor(value, static_shapes=True)


def is_node(leaf: Any) -> bool:
    return isinstance(leaf, torch.fx.Node)


def host_program(graph_module: torch.fx.GraphModule, name: str, front_end: str, reason: str) -> Program:
    """Returns a program that runs the whole graph as one call on the host."""
    nodes = list(graph_module.graph.nodes)
    count = sum(node.op == "placeholder" for node in nodes)
    results = nodes[-1].args[0]
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    names = tuple(f"result{n}" for n in range(len(results)))
    call = HostCall(
        node=name,
        target=WholeGraph(graph_module),
        args=tuple(Ref(index=n) for n in range(count)),
        kwargs={},
        names=names,
        buffers=(None,) * len(names),
        reason=reason,
    )
    return Program(
        name=name,
        front_end=front_end,
        buffers={},
        steps=(call,),
        outputs=tuple(Output(host=result) for result in names),
        arena_bytes=0,
        texts={"graph.txt": graph_module.print_readable(print_output=False)},
    )

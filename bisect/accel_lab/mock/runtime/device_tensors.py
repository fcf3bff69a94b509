"""Runs compiled graphs on torch tensors of the device; data that is already there is not transferred.

The graph works on host copies, which are read and written by the memory's definition of a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

#: torch's name for the device.
NAME = "mock"
#: Attribute of a host tensor that represents device data.
_MARK = "_mock_on_device"


def is_on_device(value: Any) -> bool:
    """Whether a value is a real or fake tensor on the device."""
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def is_marked(tensor: torch.Tensor) -> bool:
    """Whether a host tensor represents device data."""
    return bool(getattr(tensor, _MARK, False))


def marked(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a new alias of a host tensor, marked as representing device data."""
    made = tensor.view_as(tensor)
    setattr(made, _MARK, True)
    return made


def host_copies(values: Sequence[Any]) -> list[Any]:
    """Returns the values with each device tensor replaced by a marked host copy."""
    from .torch_device import peek

    return [marked(peek(value)) if is_on_device(value) else value for value in values]


def without_device(graph_module: torch.fx.GraphModule) -> tuple[bool, ...]:
    """Changes a graph to create its tensors on the host. Returns whether each output was on the device."""
    cpu = torch.device("cpu")
    results: Any = ()
    for node in graph_module.graph.nodes:
        if node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
            continue
        if node.op == "get_attr":
            value = getattr(graph_module, str(node.target), None)
            if is_on_device(value):
                setattr(graph_module, str(node.target), host_copies([value])[0])
        node.args, node.kwargs = tree_map_only(
            torch.device, lambda device: cpu if device.type == NAME else device, (node.args, node.kwargs)
        )
    graph_module.recompile()
    return tuple(isinstance(r, torch.fx.Node) and is_on_device(r.meta.get("val")) for r in results)


def device_results(
    values: Sequence[Any], on_device: Sequence[bool], given: Sequence[Any], copies: Sequence[Any]
) -> list[Any]:
    """Returns the results, with those of ``on_device`` moved to the device; returned inputs stay."""
    from .torch_device import place

    inputs = {id(copy): value for copy, value in zip(copies, given, strict=True) if copy is not value}
    found = []
    for value, wanted in zip(values, on_device, strict=True):
        if id(value) in inputs:
            value = inputs[id(value)]
        elif wanted and isinstance(value, torch.Tensor):
            value = place(value, transferred=not is_marked(value))
        found.append(value)
    return found

"""Compiled graphs over tensors that lie on the device in torch: what is there already is not transferred.

Inside, a graph runs on host copies that are read and written by the memory's definition of a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

#: torch's name for the device.
NAME = "mock"
#: Set on a host tensor whose elements lie on the device.
_MARK = "_mock_on_device"


def is_on_device(value: Any) -> bool:
    """Whether a tensor, real or fake, is one of the device in torch."""
    return isinstance(value, torch.Tensor) and value.device.type == NAME


def is_marked(tensor: torch.Tensor) -> bool:
    """Whether a host tensor stands for elements that lie on the device."""
    return bool(getattr(tensor, _MARK, False))


def marked(tensor: torch.Tensor) -> torch.Tensor:
    """A host tensor that stands for elements on the device; another one than was given."""
    made = tensor.view_as(tensor)
    setattr(made, _MARK, True)
    return made


def host_copies(values: Sequence[Any]) -> list[Any]:
    """The values with a marked host copy in place of each tensor of the device."""
    from .torch_device import peek

    return [marked(peek(value)) if is_on_device(value) else value for value in values]


def without_device(graph_module: torch.fx.GraphModule) -> tuple[bool, ...]:
    """Let a graph make its tensors on the host; for each of its outputs, whether that lay on the device."""
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
    """The results, as tensors of the device where they lie there; an input that is returned stays itself."""
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

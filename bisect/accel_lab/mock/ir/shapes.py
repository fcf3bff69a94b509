"""Finds the size and dtype of every node for given inputs, by running the graph on fake tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from accel_lab.mock.device import format_of


class _Unknown:
    """Type of the value of a node that cannot run on fake tensors."""

    def __repr__(self) -> str:
        return "unknown"


#: The value of a node that only a real run can compute.
UNKNOWN = _Unknown()


class _Recorder(torch.fx.Interpreter):
    """Runs a graph on fake tensors and records every node's value; UNKNOWN if it needs real data."""

    def __init__(self, graph_module: torch.fx.GraphModule, mode: FakeTensorMode) -> None:
        super().__init__(graph_module, garbage_collect_values=False)
        self.mode = mode
        self.found: dict[torch.fx.Node, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op == "output":
            return super().run_node(n)
        if n.op == "get_attr":
            value = self.fetch_attr(str(n.target))
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
                value = self.mode.from_tensor(value, static_shapes=True)
        elif any(self.found[used] is UNKNOWN for used in n.all_input_nodes):
            value = UNKNOWN
        else:
            try:
                value = super().run_node(n)
            except Exception:  # the host runs it with real data
                value = UNKNOWN
        self.found[n] = value
        return value


def is_concrete(value: Any) -> bool:
    """Whether a value and its sizes are concrete numbers."""
    if isinstance(value, torch.Tensor):
        return all(isinstance(extent, int) for extent in value.shape)
    return not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | _Unknown)


def lacking(tensor: torch.Tensor) -> str:
    """Returns the layout or dtype that keeps the device from holding a tensor; empty if it can."""
    if tensor.layout != torch.strided:
        return f"{str(tensor.layout).removeprefix('torch.')} tensors"
    if tensor.is_quantized or format_of(tensor.dtype) is None:
        return str(tensor.dtype).removeprefix("torch.")
    return ""


def record(graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[torch.fx.Node, Any]:
    """Returns the fake value of each node for these ``inputs``; data-dependent sizes are symbolic."""
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    known = {node: node.meta.get("val") for node in graph_module.graph.nodes if node.op != "output"}
    if _fits(placeholders, known, inputs):
        return known
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [_fake(mode, value) for value in inputs]
    recorder = _Recorder(graph_module, mode)
    with mode, torch.no_grad():
        recorder.run(*fakes, enable_io_processing=False)
    return recorder.found


def _fake(mode: FakeTensorMode, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if isinstance(value, FakeTensor):
        size = tuple(int(extent) for extent in value.shape)
        with mode:
            return torch.empty_strided(size, tuple(int(step) for step in value.stride()), dtype=value.dtype)
    return mode.from_tensor(value.detach(), static_shapes=True)


def _fits(
    placeholders: Sequence[torch.fx.Node], known: dict[torch.fx.Node, Any], inputs: Sequence[Any]
) -> bool:
    """Whether the graph's traced metadata already match the inputs."""
    for node, value in zip(placeholders, inputs, strict=True):
        kept = known[node]
        if isinstance(value, torch.Tensor):
            if not isinstance(kept, torch.Tensor) or not is_concrete(kept):
                return False
            if tuple(kept.shape) != tuple(value.shape) or kept.dtype != value.dtype:
                return False
            if any(not isinstance(step, int) for step in kept.stride()) or kept.stride() != value.stride():
                return False
        elif isinstance(kept, torch.SymInt | torch.SymFloat | torch.SymBool) or kept is None:
            return False
    for node, kept in known.items():
        if kept is None and node.op != "get_attr":
            return False
        if not all(is_concrete(leaf) for leaf in pytree.tree_leaves(kept)):
            return False
    return True

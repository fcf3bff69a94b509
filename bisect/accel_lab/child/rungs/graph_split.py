"""Splits a captured graph so that chosen operators run eagerly, outside of AOTAutograd.

The graph is split into subgraphs in the original node order. Each subgraph between chosen operators is
compiled on its own at its first call, for the inputs that it receives. Two kinds of groups stay whole: the
nodes from entering to leaving a mode, and a node up to the last ``getitem`` of its result.
"""

from __future__ import annotations

import copy
import inspect
import operator
from typing import Any, Dict, List, Tuple

import torch

from ..exceptions import NotApplicable
from ..torch_internals.dispatch import is_operator, is_overload_packet

_OPS = ("call_function", "call_method", "call_module")
#: Functions that set a global mode of torch until the next call.
_STATEFUL = ("set_grad_enabled", "inference_mode", "set_autocast", "set_deterministic")


def splittable_operators(gm: Any, turn: int) -> List[Dict[str, Any]]:
    """Lists the operators of a captured graph that can run outside of AOTAutograd.

    Each row has ``key``, ``target``, ``line`` (the user's) and ``operators`` (their number in the group).
    ``turn`` is the number of the graph within the run.
    """
    rows: List[Dict[str, Any]] = []
    for group in _groups(gm):
        if all(node.op not in _OPS for node in group):
            continue
        heads = [node for node in group if node.target is not operator.getitem] or group[:1]
        names = list(dict.fromkeys(target_name(gm, node) for node in heads))
        line = next((line for line in map(user_line, heads) if line), "")
        rows.append(
            {"key": _key(group, turn), "target": ", ".join(names), "line": line, "operators": len(heads)}
        )
    return rows


def target_name(gm: Any, node: Any) -> str:
    """Returns a readable name of a node's operator, such as ``Linear`` or ``Tensor.view``."""
    if node.op == "call_module":
        return type(gm.get_submodule(node.target)).__name__
    if node.op == "call_method":
        return "Tensor." + str(node.target)
    if is_operator(node.target) or is_overload_packet(node.target):
        return str(node.target)
    name = getattr(node.target, "__name__", None) or str(node.target)
    module = getattr(node.target, "__module__", None) or ""
    return "operator." + name if module == "_operator" else name


def user_line(node: Any) -> str:
    """Returns file, line and source of the innermost frame in a node's stack trace; empty without one."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").strip().splitlines()]
    for place in range(len(lines) - 1, -1, -1):
        if lines[place].startswith("File "):
            source = lines[place + 1] if place + 1 < len(lines) else ""
            return "%s: %s" % (lines[place].replace("File ", "", 1), source)
    return ""


class GraphSplitter:
    """Builds graphs in which the operators ``keys`` run eagerly; with no keys a graph is not split."""

    def __init__(self, keys: Any) -> None:
        self.keys = frozenset(keys)

    def build(self, gm: Any, turn: int, example_inputs: Any, builder: Any) -> Any:
        """Returns a callable for the graph; ``builder(gm, inputs)`` compiles the parts that stay inside.

        Raises ``NotApplicable`` if this torch cannot split a graph in node order.
        """
        from torch.fx.passes.split_module import split_module

        if "keep_original_order" not in inspect.signature(split_module).parameters:
            raise NotApplicable("this torch cannot split a graph in its own order")
        inside: Dict[Any, bool] = {}
        for group in _groups(gm):
            for node in group:
                inside[node] = _key(group, turn) not in self.keys
        parts: Dict[Any, int] = {}
        part, last = 0, None
        for node in gm.graph.nodes:
            if node not in inside:
                continue
            if last is not None and inside[node] is not last:
                part += 1
            last = inside[node]
            parts[node] = part
        if not parts:
            return builder(gm, example_inputs)
        kept = {parts[node] for node in parts if inside[node]}
        split = split_module(gm, None, lambda node: parts[node], keep_original_order=True)  # type: ignore[arg-type]
        for name, child in list(split.named_children()):
            if name.startswith("submod_") and int(name.split("_")[1]) in kept:
                setattr(split, name, _Lazy(child, builder))
        return split.forward


class _Lazy(torch.nn.Module):
    """A subgraph that is compiled once for each combination of input metadata."""

    def __init__(self, gm: Any, builder: Any) -> None:
        super().__init__()
        self._single = _returns_tuple(gm)
        self._part = [gm]  # in a list, so that it is not registered as a submodule
        self._builder = builder
        self._compiled: Dict[Tuple[Any, ...], Any] = {}

    def forward(self, *args: Any) -> Any:
        key = (torch.is_grad_enabled(), *(_kind(value) for value in args))
        if key not in self._compiled:
            gm = self._part[0]
            fresh = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
            self._compiled[key] = self._builder(fresh, list(args))
        out = self._compiled[key](*args)
        return out[0] if self._single else out


def _returns_tuple(gm: Any) -> bool:
    """Makes the graph return a tuple, as compilers expect; returns whether its result was a bare value."""
    output = next(node for node in gm.graph.nodes if node.op == "output")
    if isinstance(output.args[0], (tuple, list)):
        return False
    output.args = ((output.args[0],),)
    gm.recompile()
    return True


def _kind(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    layout = tuple(value.stride()) if value.layout is torch.strided else str(value.layout)
    return (value.dtype, tuple(value.shape), layout, value.device, value.requires_grad)


def _key(group: Any, turn: int) -> str:
    return "%d:%s" % (turn, group[0].name)


def _is_state(node: Any) -> bool:
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name.startswith(("_enter_", "_exit_", "enter_", "exit_")) or any(w in name for w in _STATEFUL)


def _groups(gm: Any) -> List[List[Any]]:
    """Groups the call nodes, in order, so that nodes which must stay together are in one group."""
    nodes = [node for node in gm.graph.nodes if node.op in _OPS]
    place = {node: number for number, node in enumerate(nodes)}
    joined = [False] * len(nodes)  # whether a node is in the same group as the previous one
    last_state: Dict[str, int] = {}
    for number, node in enumerate(nodes):
        begin = None
        if node.op == "call_function" and node.target is operator.getitem and node.args[0] in place:
            begin = place[node.args[0]]
        elif _is_state(node):
            entered = [place[arg] for arg in node.all_input_nodes if arg in place]
            name = node.target.__name__
            begin = min(entered) if entered else last_state.get(name)
            last_state[name] = number if begin is None else begin
        if begin is not None:
            for between in range(begin + 1, number + 1):
                joined[between] = True
    groups: List[List[Any]] = []
    for number, node in enumerate(nodes):
        if joined[number]:
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups

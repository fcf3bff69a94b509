"""Constraints on a single node: its dtype, layout, alignment, and operator."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .catalogue import Constraint, Finding, GraphView, node_tensors
from .operators import canonical_names_of
from .values import elements, extents, is_traced, size_on_device, strides, tensors, traced, words

Findings = Iterator[Finding]
#: Targets that unpack containers or compute numbers on the host.
_HOST_ONLY = frozenset({operator.getitem, getattr, len, slice, isinstance})
_NAMESPACES = ("torch", "_operator", "operator", "math", "builtins")


@dataclass(frozen=True, kw_only=True)
class DtypeConstraint(Constraint):
    """Tensors must have a dtype that the device supports."""

    allowed: frozenset[torch.dtype]
    name: str = "dtype"
    severity: str = "error"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        lacking = dict.fromkeys(t.dtype for t in node_tensors(node) if t.dtype not in self.allowed)
        for dtype in lacking:
            instead = self._instead(dtype)
            yield Finding(
                node=node,
                message=f"{words(dtype)} is not a dtype of the device",
                change=f"use {instead}" if instead else "compute it outside of the compiled region",
            )

    def _instead(self, dtype: torch.dtype) -> str:
        """Up to three allowed dtypes of the same kind, widest first."""

        def fits(other: torch.dtype) -> bool:
            if dtype.is_complex or other is torch.bool:
                return False
            return other.is_floating_point == dtype.is_floating_point

        found = sorted((d for d in self.allowed if fits(d)), key=lambda d: (-d.itemsize, words(d)))
        return " or ".join(words(d) for d in found[:3])


@dataclass(frozen=True, kw_only=True)
class LayoutConstraint(Constraint):
    """Inputs must be contiguous, and the stick dimension must be the last one, filled, and stay in place."""

    stick_bytes: int = 128
    name: str = "layout"
    severity: str = "warning"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        for tensor in node_tensors(node):
            if tensor.layout != torch.strided:
                yield Finding(
                    node=node,
                    message=f"a {tensor.layout} tensor has no sticks",
                    change="use a dense tensor (.to_dense())",
                    severity="error",
                )
            elif node.op in ("placeholder", "get_attr"):
                yield from self._entering(node, tensor)
            else:
                yield from self._moving(node, tensor)

    def _entering(self, node: torch.fx.Node, tensor: torch.Tensor) -> Findings:
        size, steps = extents(tensor), strides(tensor)
        if size is None or steps is None:
            return
        if not _dense(size, steps):
            yield Finding(
                node=node,
                message=f"an input of size {list(size)} with strides {list(steps)} is not contiguous",
                change="pass it contiguous (.contiguous() before the compiled region)",
            )
        lanes = self.stick_bytes // tensor.dtype.itemsize
        taken = size_on_device(size, tensor.dtype, self.stick_bytes)
        if len(size) > 1 and size[-1] == 1 and taken > self.stick_bytes and lanes > 1:
            yield Finding(
                node=node,
                message=f"the last dimension of {list(size)} lies along the sticks and has one element: "
                f"1 of {lanes} lanes is used",
                change="let the longest dimension be the last one",
            )

    def _moving(self, node: torch.fx.Node, tensor: torch.Tensor) -> Findings:
        before = [t for used in node.all_input_nodes for t in node_tensors(used)]
        after, size = _stick_dim(tensor), extents(tensor)
        if (
            len(before) != 1
            or not size
            or size[-1] == 1
            or elements(size) != elements(extents(before[0]) or ())
        ):
            return  # a computation chooses its own layout; only data movement is checked
        if after is not None and after != tensor.dim() - 1:
            was = _stick_dim(before[0])
            if was is not None and was == before[0].dim() - 1:
                yield Finding(
                    node=node,
                    message=f"the sticks of the result lie along dimension {after} of {tensor.dim()}",
                    change="keep the last dimension last; otherwise a restickify kernel is inserted where "
                    "needed",
                )


def _dense(size: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    step = 1
    for extent, have in zip(reversed(size), reversed(steps), strict=True):
        if extent == 0:
            return True
        if extent > 1 and have != step:
            return False
        step *= extent
    return True


def _stick_dim(tensor: torch.Tensor) -> int | None:
    """The dimension with stride 1 and extent above 1; None if there is none, as in a broadcast tensor."""
    size, steps = extents(tensor), strides(tensor)
    if size is None or steps is None:
        return None
    wide = [(step, -dim) for dim, (extent, step) in enumerate(zip(size, steps, strict=True)) if extent > 1]
    if not wide or min(wide)[0] != 1:
        return None
    return -min(wide)[1]


@dataclass(frozen=True, kw_only=True)
class AlignmentConstraint(Constraint):
    """The last dimension's extent, or every extent, must be a multiple of ``multiple`` elements."""

    multiple: int = 1
    every_dimension: bool = False
    name: str = "alignment"
    severity: str = "error"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        if self.multiple <= 1:
            return
        for size in dict.fromkeys(size for t in node_tensors(node) if (size := extents(t))):
            last = len(size) - 1
            odd = [dim for dim in range(last + 1) if size[dim] % self.multiple]
            odd = odd if self.every_dimension else [dim for dim in odd if dim == last]
            if not odd:
                continue
            wanted = [-(-size[dim] // self.multiple) * self.multiple for dim in odd]
            which = "the last dimension" if odd == [last] else f"dimension {', '.join(map(str, odd))}"
            yield Finding(
                node=node,
                message=f"{which} of {list(size)} is not a multiple of {self.multiple}",
                change=f"pad it to {', '.join(map(str, wanted))}",
            )


@dataclass(frozen=True, kw_only=True)
class OperatorConstraint(Constraint):
    """Operators must be supported by the device and not be on the deny-list.

    ``supported`` holds canonical ATen names. If it is None, ``lacks`` returns why the device lacks an
    overload, or an empty string if it has it. If both are None, every overload counts as supported. Nodes
    that are no torch operators are violations too.
    """

    denied: frozenset[str] = frozenset()
    supported: frozenset[str] | None = None
    lacks: Callable[[torch._ops.OpOverload], str] | None = None
    name: str = "unsupported"
    severity: str = "error"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        if node.op not in ("call_function", "call_method", "call_module"):
            return
        entries = canonical_names_of(node, graph_module)
        denied = next((entry for entry in entries if entry in self.denied), "")
        if denied:
            yield Finding(
                node=node,
                message=f"{denied} is on the deny-list",
                change=f"replace {denied}, or take it off the list",
            )
        elif reason := self._reason(node, entries, view):
            yield Finding(
                node=node,
                message=reason,
                change="replace it, or leave it out of the compiled region; else it runs on the host",
            )

    def _reason(self, node: torch.fx.Node, entries: tuple[str, ...], view: GraphView) -> str:
        target: Any = node.target
        if target in _HOST_ONLY if node.op == "call_function" else False:
            return ""
        if isinstance(target, torch._ops.HigherOrderOperator) and str(target) != "with_effects":
            # AOTAutograd inlines those of Dynamo; their subgraphs are checked at both levels.
            return (
                f"the higher-order operator {target} is not one of the device" if view.level == "aten" else ""
            )
        if is_traced(node) and not tensors(traced(node)) and traced(node) is not None:
            return ""  # the host computes sizes and numbers
        if view.level == "aten" and self.supported is not None:
            lacks = entries[0] not in self.supported
            return f"{entries[0] or target} is not an operator of the device" if lacks else ""
        if view.level == "aten":
            return self._of_aten(node)
        if node.op == "call_method" and not hasattr(torch.Tensor, str(target)):
            return f"the method {target} is unknown"
        if node.op == "call_function" and not _of_torch(target):
            return (
                f"{entries[0] or repr(target)} is not a function of torch, and the device does not support it"
            )
        return ""

    def _of_aten(self, node: torch.fx.Node) -> str:
        target: Any = node.target
        if str(target) == "with_effects" and len(node.args) > 1:
            target = node.args[1]  # the operator that the effect token orders
        if not isinstance(target, torch._ops.OpOverload):
            name = getattr(target, "__name__", target)
            return f"{name} is not an ATen operator, and the device does not support it"
        reason = self.lacks(target) if self.lacks is not None else ""
        if reason and torch.Tag.nondeterministic_seeded in target.tags:
            return reason
        if not target._schema.returns or (is_traced(node) and traced(node) is None):
            return ""  # an assertion
        if not is_traced(node):
            return "the node has no traced value"
        return reason


def _of_torch(target: Any) -> bool:
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    place = getattr(target, "__module__", None) or type(getattr(target, "__self__", None)).__module__
    owner = getattr(target, "__objclass__", None)  # a method descriptor
    return str(place).partition(".")[0] in _NAMESPACES or getattr(owner, "__module__", "").startswith("torch")


@dataclass(frozen=True, kw_only=True)
class LoweringRefuses(Constraint):
    """Reports as ``unsupported`` the nodes that a lowering refused (``reasons``: node name to reason)."""

    reasons: Mapping[str, str]
    name: str = "unsupported"
    severity: str = "error"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        if graph_module is view.graph_module and (reason := self.reasons.get(node.name)):
            yield Finding(
                node=node,
                message=reason,
                change="replace it, or leave it out of the compiled region; else it runs on the host",
            )

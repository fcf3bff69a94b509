"""Constraints on one node against a size limit: device memory, scratchpad, addressable span of a core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from .catalogue import Constraint, Finding, GraphView, node_tensors
from .values import amount, bytes_of, elements, extents, words

Findings = Iterator[Finding]


@dataclass(frozen=True, kw_only=True)
class TensorMemoryConstraint(Constraint):
    """Each single tensor must fit into device memory (``limit`` in bytes)."""

    limit: int
    stick_bytes: int = 128
    name: str = "memory"
    severity: str = "error"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        for tensor in node_tensors(node):
            taken = bytes_of(tensor, self.stick_bytes)
            if taken is not None and taken > self.limit:
                yield Finding(
                    node=node,
                    message=f"{words(tensor.dtype)} {list(extents(tensor) or ())} takes {amount(taken)}, "
                    f"the device has {amount(self.limit)}",
                    change="split it, or use a smaller batch or dtype",
                )


@dataclass(frozen=True, kw_only=True)
class ScratchpadConstraint(Constraint):
    """A reduction's column (the full reduced extent, one stick wide) must fit into a core's scratchpad.

    ``bytes`` is None if cores have no scratchpad.
    """

    bytes: int | None
    stick_bytes: int = 128
    name: str = "scratchpad"
    severity: str = "warning"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        if view.level != "aten" or self.bytes is None:
            return
        for tensor, reduced in _reduced(node, self.stick_bytes):
            held = reduced * self.stick_bytes
            if held > self.bytes:
                yield Finding(
                    node=node,
                    message=f"reduces {list(extents(tensor) or ())}: one column of sticks takes "
                    f"{amount(held)}, a scratchpad {amount(self.bytes)}",
                    change="reduce in two steps; otherwise it runs from device memory, which is slow",
                )


def _reduced(node: torch.fx.Node, stick_bytes: int) -> Iterable[tuple[torch.Tensor, int]]:
    """Yields a reduction's operand and its depth in sticks along the reduced dimensions."""
    outs, ins = node_tensors(node), [t for used in node.all_input_nodes for t in node_tensors(used)]
    if not isinstance(node.target, torch._ops.OpOverload) or len(outs) != 1 or len(ins) != 1:
        return
    schema = node.target._schema
    if not any(argument.name in ("dim", "dims") for argument in schema.arguments):
        return
    size, result = extents(ins[0]), extents(outs[0])
    if size is None or result is None or elements(result) >= elements(size):
        return
    dims = node.args[1] if len(node.args) > 1 else None
    if isinstance(dims, int):
        dims = [dims]
    chosen = range(len(size)) if not isinstance(dims, (list, tuple)) or not dims else dims
    lanes = max(1, stick_bytes // ins[0].dtype.itemsize)
    depth = 1
    for dim in chosen:
        if not isinstance(dim, int):
            return
        dim %= len(size)
        depth *= -(-size[dim] // lanes) if dim == len(size) - 1 else size[dim]
    yield ins[0], depth


@dataclass(frozen=True, kw_only=True)
class SpanConstraint(Constraint):
    """The part of an operand that one core processes must lie in its addressable span (None: no limit)."""

    bytes: int | None
    cores: int
    stick_bytes: int = 128
    name: str = "span"
    severity: str = "warning"

    def findings(self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView) -> Findings:
        if self.bytes is None or node.op not in ("call_function", "call_method", "call_module"):
            return
        outs = node_tensors(node)
        if not outs:
            return
        sizes = [extents(t) for t in outs]
        shape = sizes[0]
        if shape is None:
            return
        for tensor in (*outs, *(t for used in node.all_input_nodes for t in node_tensors(used))):
            taken, size = bytes_of(tensor, self.stick_bytes), extents(tensor)
            if taken is None or taken <= self.bytes:
                continue
            share = taken // _even(shape, self.cores) if size == shape else taken
            if share > self.bytes:
                yield Finding(
                    node=node,
                    message=f"one core addresses {amount(share)} of {list(size or ())}, "
                    f"more than its span of {amount(self.bytes)}",
                    change="split it, or use extents divisible by more cores; otherwise it runs in several "
                    "steps",
                )
                return


def _even(size: tuple[int, ...], cores: int) -> int:
    """Number of cores that a size divides over evenly, chosen greedily from the outermost dimension."""
    used = 1
    for extent in size:
        used *= max((n for n in range(1, cores // used + 1) if extent % n == 0), default=1) if extent else 1
    return used

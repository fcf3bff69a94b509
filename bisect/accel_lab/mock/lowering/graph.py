"""Lowers an ATen graph node by node to loop nests; unsupported nodes become host calls with a reason."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from accel_lab.mock.ir import shapes
from accel_lab.mock.ir.loop_ir import HostNest, LoopBuffer, LoopProgram, Result, View, whole
from accel_lab.mock.ir.program import Ref

from . import (  # noqa: F401 - the families register themselves
    convolution,
    creation,
    gather,
    matmul,
    movement,
    pointwise,
    reduction,
)
from .builder import Builder, Unsupported, handler_of
from .formats import FORMATS_BY_DTYPE

RANDOM = "random numbers are drawn on the host"


@dataclass(frozen=True)
class HostArg:
    """A tensor argument of a host call: the key of the nest's reads, and the strides it has in torch."""

    key: str
    stride: tuple[int, ...] | None = None


@dataclass(frozen=True)
class HostValue:
    """A node's value that exists only on the host, by name."""

    name: str


class LoweringError(ValueError):
    """Raised if the front end cannot lower a graph at all; the message names the node."""


def is_random(target: Any) -> bool:
    """Whether an operator draws random numbers."""
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


class GraphLowering:
    """Lowers one graph in a single pass; unsupported nodes become host calls with a reason."""

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        name: str,
        native: Collection[str] | None,
    ) -> None:
        self.graph_module = graph_module
        self.inputs = inputs
        self.native = native
        self.build = Builder(name)
        self.values: dict[torch.fx.Node, Any] = {}
        self.host_names: dict[torch.fx.Node, str] = {}
        self.fakes = shapes.record(graph_module, inputs)
        self.numbers: dict[torch.fx.Node, int] = {}

    def run(self) -> LoopProgram:
        """Lowers all nodes and returns the loop nests. Raises LoweringError."""
        for node in self.graph_module.graph.nodes:
            self.build.node = node.name
            self.build.source = source_of(node)
            if node.op == "placeholder":
                self.values[node] = self._placeholder(node)
            elif node.op == "output":
                self._output(node)
            elif node.op == "get_attr":
                self.values[node] = self._attribute(node)
            else:
                self.values[node] = self._call(node)
        self.build.program.without_dead()
        return self.build.program

    # ---- inputs and outputs

    def _placeholder(self, node: torch.fx.Node) -> Any:
        index = len(self.numbers)
        self.numbers[node] = index
        value = self.inputs[index]
        if not isinstance(value, torch.Tensor):
            return value
        if shapes.lacking(value):
            return HostValue(node.name)
        place = self.build.buffer(tuple(int(extent) for extent in value.shape), value.dtype, "input")
        place.index = index
        return whole(place)

    def _attribute(self, node: torch.fx.Node) -> Any:
        value: Any = operator.attrgetter(str(node.target))(self.graph_module)
        if not isinstance(value, torch.Tensor):
            return value
        value = value.detach()
        if shapes.lacking(value):
            return value
        if (
            value.dim() == 0
            and value.dtype in FORMATS_BY_DTYPE
            and type(value) in (torch.Tensor, torch.nn.Parameter)
        ):
            return self.build.full((), value.item(), value.dtype)
        place = self.build.buffer(tuple(value.shape), value.dtype, "constant")
        place.value = value
        return whole(place)

    def _output(self, node: torch.fx.Node) -> None:
        for leaf in pytree.tree_leaves(node.args[0]):
            if not isinstance(leaf, torch.fx.Node):
                self.build.program.results.append(Result(value=leaf))
                continue
            value = self.values[leaf]
            fake = self.fakes.get(leaf)
            result = Result()
            result.stride = self._stride(leaf)
            if isinstance(fake, torch.Tensor):
                result.dtype = fake.dtype
            if leaf.op == "placeholder":
                result.index = self.numbers[leaf]
            elif leaf in self.host_names:
                result.host = self.host_names[leaf]
            elif isinstance(value, HostValue):
                result.host = value.name
            elif isinstance(value, View):
                result.view = self.build.dense(value)
            else:
                result.value = value
            self.build.program.results.append(result)

    # ---- operators

    def _call(self, node: torch.fx.Node) -> Any:
        fake = self.fakes.get(node)
        if isinstance(fake, bool | int | float):
            return fake
        if node.target is operator.getitem:
            source: Any = self.values[node.args[0]]  # type: ignore[index]
            if isinstance(source, tuple | list):
                value = source[node.args[1]]  # type: ignore[index]
                owner = node.args[0]
                if isinstance(owner, torch.fx.Node) and isinstance(value, View | HostValue):
                    name = self.host_names.get(owner)
                    if name is not None:
                        self.host_names[node] = f"{name}_{node.args[1]}"
                return value
        try:
            return self._native(node, fake)
        except Unsupported as refusal:
            return self._host(node, fake, str(refusal))

    def _native(self, node: torch.fx.Node, fake: Any) -> Any:
        if is_random(node.target):
            raise Unsupported(RANDOM)
        handler = handler_of(node.target)
        packet = str(node.target).rpartition(".")[0]
        if handler is None:
            raise Unsupported("the device has no such operator")
        if self.native is not None and not {packet, str(node.target)} & set(self.native):
            raise Unsupported("the operator is not listed in `native`")
        for leaf in pytree.tree_leaves(fake):
            if not shapes.is_concrete(leaf):
                raise Unsupported("its size depends on data")
            if isinstance(leaf, torch.Tensor) and (lack := shapes.lacking(leaf)):
                raise Unsupported(f"the device has no {lack}")

        def value_of(used: torch.fx.Node) -> Any:
            value = self.values[used]
            if any(isinstance(leaf, HostValue | torch.Tensor) for leaf in pytree.tree_leaves(value)):
                kept = self.fakes.get(used)
                lack = shapes.lacking(kept) if isinstance(kept, torch.Tensor) else ""
                raise Unsupported(f"the device has no {lack or 'such value'}")
            return value

        args = torch.fx.map_arg(node.args, value_of)
        kwargs = torch.fx.map_arg(node.kwargs, value_of)
        first = (
            self.fakes.get(node.args[0]) if node.args and isinstance(node.args[0], torch.fx.Node) else None
        )
        if isinstance(first, torch.Tensor):
            self.build.input_strides = tuple(int(step) for step in first.stride())
            stored = int(first.untyped_storage().nbytes()) if shapes.is_concrete(first) else -1
            self.build.input_whole = stored == first.numel() * first.element_size()
        kept, nests = dict(self.build.program.buffers), list(self.build.program.nests)
        try:
            return handler(self.build, fake, *args, **kwargs)
        except Unsupported:
            self.build.program.buffers, self.build.program.nests = kept, nests
            raise

    def _host(self, node: torch.fx.Node, fake: Any, reason: str) -> Any:
        given = node.args
        if node.target is torch.ops.aten.as_strided.default:
            given = self._over_storage(node, reason)
        reads: dict[str, View] = {}

        def argument(used: torch.fx.Node) -> Any:
            value = self.values[used]
            if used.op == "placeholder":
                return Ref(index=self.numbers[used]) if isinstance(value, View | HostValue) else value
            if used in self.host_names and isinstance(value, View | HostValue):
                return Ref(host=self.host_names[used], stride=self._stride(used))
            if isinstance(value, HostValue):
                return Ref(host=value.name, stride=self._stride(used))
            if isinstance(value, View):
                key = f"a{len(reads)}"
                reads[key] = self.build.dense(value)
                return HostArg(key, self._stride(used))
            if isinstance(value, tuple | list) and any(isinstance(leaf, View | HostValue) for leaf in value):
                raise LoweringError(f"{node.name}: a tuple of tensors is an argument of {node.target}")
            return value

        args = torch.fx.map_arg(given, argument)
        kwargs = torch.fx.map_arg(node.kwargs if given is node.args else {}, argument)
        several = isinstance(fake, tuple | list)
        leaves = list(fake) if several else [fake]
        names, writes, values = [], [], []
        for number, leaf in enumerate(leaves):
            name = f"{node.name}_{number}" if several else node.name
            names.append(name)
            place = self._host_place(name, leaf)
            writes.append(place.name if place else None)
            values.append(whole(place) if place else HostValue(name))
        if _only_numbers(leaves) or not isinstance(
            node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator
        ):
            reason = ""
        self.build.program.nests.append(
            HostNest(
                name=node.name,
                target=node.target,
                args=args,
                kwargs=kwargs,
                reads=reads,
                names=tuple(names),
                writes=tuple(writes),
                reason=reason,
                source=self.build.source,
            )
        )
        self.host_names[node] = node.name
        return tuple(values) if several else values[0]

    def _stride(self, node: torch.fx.Node) -> tuple[int, ...] | None:
        """The traced strides of a node's tensor, None if unknown."""
        fake = self.fakes.get(node)
        if not isinstance(fake, torch.Tensor) or fake.layout != torch.strided or not shapes.is_concrete(fake):
            return None
        return tuple(int(step) for step in fake.stride())

    def _over_storage(self, node: torch.fx.Node, reason: str) -> tuple[Any, ...]:
        """Arguments of an ``as_strided`` on the host, applied to the tensor that owns the storage.

        The host gets each tensor separately; of a view it would get the elements without those in between.
        Raises LoweringError if the owner is unknown.
        """
        source = node.args[0]
        size, stride = node.args[1:3]
        offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
        assert isinstance(source, torch.fx.Node)
        seen = self.fakes.get(source)
        if not isinstance(seen, torch.Tensor) or not shapes.is_concrete(seen):
            raise LoweringError(f"{node.name}: {reason}, and its storage is unknown")
        owner = source
        while (before := self._viewed(owner)) is not None:
            owner = before
        kept = self.fakes[owner]
        whole_storage = kept.storage_offset() == 0 and _reach(kept) == _stored(seen)
        if owner.op != "placeholder" and not whole_storage:
            raise LoweringError(f"{node.name}: {reason}, and no tensor in the graph owns its whole storage")
        if offset is None and owner is not source:
            offset = seen.storage_offset()
        return (owner, size, stride, offset)

    def _viewed(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """The node whose storage this node's tensor shares, None if it is no view."""
        mine = self.fakes.get(node)
        if node.op != "call_function" or not isinstance(mine, torch.Tensor):
            return None
        storage = mine.untyped_storage()._cdata
        for used in node.all_input_nodes:
            theirs = self.fakes.get(used)
            if isinstance(theirs, torch.Tensor) and theirs.untyped_storage()._cdata == storage:
                return used
        return None

    def _host_place(self, name: str, leaf: Any) -> LoopBuffer | None:
        if not isinstance(leaf, torch.Tensor) or not shapes.is_concrete(leaf) or shapes.lacking(leaf):
            return None
        return self.build.buffer(tuple(int(extent) for extent in leaf.shape), leaf.dtype, "host", hint=name)


def _stored(fake: torch.Tensor) -> int:
    """The storage size in elements."""
    return int(fake.untyped_storage().nbytes()) // fake.element_size()


def _reach(fake: torch.Tensor) -> int:
    """The number of elements from a tensor's first to its last one in memory."""
    if not fake.numel():
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(fake.shape, fake.stride(), strict=True))


def _only_numbers(leaves: Sequence[Any]) -> bool:
    """Whether a call returns only symbolic numbers, as a size or ``item`` does."""
    if not leaves or any(isinstance(leaf, torch.Tensor) or leaf is shapes.UNKNOWN for leaf in leaves):
        return False
    return all(isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool) for leaf in leaves)


def source_of(node: torch.fx.Node) -> str:
    """Returns a node's line in the user's program: the innermost frame outside of libraries."""
    trace = node.meta.get("stack_trace") or node.stack_trace or ""
    found = ""
    for line in trace.splitlines():
        line = line.strip()
        if line.startswith("File ") and "site-packages" not in line and "dist-packages" not in line:
            found = line.removeprefix("File ").replace('"', "").replace(", line ", ":").partition(",")[0]
    return found


def lower_graph(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    name: str,
    native: Collection[str] | None = None,
) -> LoopProgram:
    """Lowers a graph to loop nests, not yet fused. Raises LoweringError."""
    return GraphLowering(graph_module, inputs, name, native).run()

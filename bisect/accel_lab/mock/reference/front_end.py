"""The reference front end: lowers an ATen graph in the simplest way, as a check of the main one.

It makes one pass over the graph and looks up each operator in the table of :mod:`.rules`. Operators or
arguments without a rule run on the host, with the reason.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_any, tree_map

from accel_lab.mock.device import STICK_BYTES, Device, format_of
from accel_lab.mock.ir.concrete import is_node
from accel_lab.mock.ir.layout import row_major
from accel_lab.mock.ir.program import Constant, Enter, HostCall, Output, Program, Ref, Step
from accel_lab.mock.runtime.device_tensors import NAME as DEVICE_NAME
from accel_lab.mock.spec.kernel_spec import Operand

from . import movement, pointwise, reduction, windows  # noqa: F401 - importing registers the rules
from .builder import Builder, NotNative, Value
from .rules import EMPTY_OPERANDS, RULES, bind

NAME = "reference"
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = os.path.dirname(torch.__file__) + os.sep


@dataclass(frozen=True, kw_only=True)
class OnHost:
    """A value that is not on the device: a tensor of an unsupported dtype, or no tensor."""

    traced: Any
    host: str | None = None
    index: int | None = None
    value: Any = None


def lower(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    device: Device,
    name: str,
    *,
    native: Collection[str] | None = None,
) -> Program:
    """Lowers a functional ATen graph whose nodes have concrete traced values (``meta["val"]``).

    ``native`` restricts the device to these operators (``aten.mm.default`` or ``aten.mm``).
    """
    return _Lowering(graph_module, device, name, native).program()


class _Lowering:
    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        device: Device,
        name: str,
        native: Collection[str] | None,
    ) -> None:
        self.graph_module = graph_module
        self.name = name
        self.native = None if native is None else frozenset(native)
        self.values: dict[torch.fx.Node, Any] = {}
        self.used: set[str] = set()
        self.entries: dict[str, Step] = {}
        self.outputs: tuple[Output, ...] = ()
        self.resident_bytes = 0
        for node in graph_module.graph.nodes:
            held = self._graph_value(node)
            if isinstance(held, torch.Tensor) and (found := format_of(held.dtype)) and _is_dense(held):
                layout = row_major(tuple(held.shape), found.name)
                self.resident_bytes += max(layout.bytes, STICK_BYTES)
        self.b = Builder(device, self.resident_bytes)

    def _graph_value(self, node: torch.fx.Node) -> Any:
        """The value of a placeholder or attribute; None for other nodes."""
        if node.op == "placeholder":
            return node.meta.get("val")
        return operator.attrgetter(str(node.target))(self.graph_module) if node.op == "get_attr" else None

    def program(self) -> Program:
        """Lowers all nodes and returns the program."""
        index, address = 0, 0
        for node in self.graph_module.graph.nodes:
            self.b.origin, self.b.source = node.name, source_line(node)
            if node.op in ("placeholder", "get_attr"):
                address += self._add_input(node, index, address)
                index += node.op == "placeholder"
            elif node.op == "output":
                self.outputs = tuple(self._output(entry) for entry in _listed(node.args[0]))
            else:
                self.values[node] = self._call(node)
        enters = [step for buffer, step in self.entries.items() if buffer in self.used]
        steps = [self._used_results(step) if isinstance(step, HostCall) else step for step in self.b.steps]
        return Program(
            name=self.name,
            front_end=NAME,
            buffers=self.b.buffers,
            steps=(*enters, *steps),
            outputs=self.outputs,
            arena_bytes=self.b.arena_bytes,
            resident_bytes=self.resident_bytes,
            texts={
                "graph.txt": self.graph_module.print_readable(print_output=False),
                "kernels.txt": "".join(_line(step) + "\n" for step in steps),
            },
        )

    def _used_results(self, call: HostCall) -> HostCall:
        """Restricts a call's device results to those that are read on the device."""
        return replace(call, buffers=tuple(name if name in self.used else None for name in call.buffers))

    def _add_input(self, node: torch.fx.Node, index: int, address: int) -> int:
        """Adds an input or a constant of the graph; returns its bytes in the arena."""
        held = self._graph_value(node)
        place = index if node.op == "placeholder" else None
        found = format_of(held.dtype) if isinstance(held, torch.Tensor) and _is_dense(held) else None
        if found is None:
            kept = None if node.op == "placeholder" else held
            self.values[node] = OnHost(traced=held, index=place, value=kept)
            return 0
        value = self.b.place(tuple(held.shape), found.name, name=node.name, address=address)
        if node.op == "placeholder":
            self.entries[value.name] = Enter(index=index, buffer=value.name, resident=True)
        else:
            self.entries[value.name] = Constant(value=held, buffer=value.name)
        self.values[node] = replace(value, index=place)
        return max(value.layout.bytes, STICK_BYTES)

    def _call(self, node: torch.fx.Node) -> Any:
        """Lowers one operator by its rule, else to a host call."""
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]  # type: ignore[index]
        state = self.b.state()
        used = set(self.used)
        try:
            return self._native(node)
        except NotNative as lack:
            self.b.restore(state)
            self.used = used
            return self._on_host(node, str(lack))

    def _native(self, node: torch.fx.Node) -> Any:
        target, out = node.target, node.meta.get("val")
        name = str(target)
        if not isinstance(target, torch._ops.OpOverload):
            raise NotNative(f"{getattr(target, '__name__', name)} is not an ATen operator")
        if torch.Tag.nondeterministic_seeded in target.tags:
            raise NotNative("random numbers are drawn on the host")
        if name not in RULES or (
            self.native is not None and not self.native & {name, name.rsplit(".", 1)[0]}
        ):
            raise NotNative("not an operator of the device")
        results = [entry for entry in _listed(out) if isinstance(entry, torch.Tensor)]
        for traced in results:
            _check_format(traced)
        if results and not any(traced.numel() for traced in results):
            made = [None if traced is None else self._empty(traced) for traced in _listed(out)]
            return made if isinstance(out, (tuple, list)) else made[0]
        arguments = bind(target, node.args, node.kwargs)
        traced_arguments = tree_map(_traced, arguments, is_leaf=is_node)
        found = tree_map(self._operand, arguments, is_leaf=is_node)
        empty = tree_any(lambda leaf: isinstance(leaf, Value) and not leaf.elements, found)
        if empty and name not in EMPTY_OPERANDS:
            raise NotNative("an operand without elements")
        return RULES[name](self.b, {**found, "_op": name, "_traced": traced_arguments}, out)

    def _empty(self, traced: torch.Tensor) -> Value:
        return self.b.place(tuple(traced.shape), _check_format(traced))

    def _operand(self, leaf: Any) -> Any:
        """Converts an argument for a rule: tensors to their device values; numbers stay."""
        if not isinstance(leaf, torch.fx.Node):
            return leaf
        value = self.values[leaf]
        if isinstance(value, OnHost):
            if isinstance(value.traced, torch.Tensor):
                _check_format(value.traced)
            raise NotNative("an argument that only the host knows")
        if isinstance(value, Value):
            self.used.add(value.name)
        return value

    def _on_host(self, node: torch.fx.Node, reason: str) -> Any:
        """Adds a host call; its results are also sent to the device if it supports their format."""
        given = _from_the_base(node) or (node.args, node.kwargs)
        args, kwargs = tree_map(self._reference, given, is_leaf=is_node)
        out = node.meta.get("val")
        results = [] if out is None else _listed(out)
        several = isinstance(out, (tuple, list))
        names = tuple(f"{node.name}_{n}" if several else node.name for n in range(len(results)))
        made: list[Any] = []
        for host, traced in zip(names, results, strict=True):
            found = (
                format_of(traced.dtype) if isinstance(traced, torch.Tensor) and _is_dense(traced) else None
            )
            if found is None:
                made.append(OnHost(traced=traced, host=host))
            else:
                made.append(replace(self.b.place(tuple(traced.shape), found.name, name=host), host=host))
        tensors = any(isinstance(entry, torch.Tensor) for entry in results)
        self.b.steps.append(
            HostCall(
                node=node.name,
                target=node.target,
                args=args,
                kwargs=kwargs,
                names=names,
                buffers=tuple(value.name if isinstance(value, Value) else None for value in made),
                reason=reason if tensors else "",
                source=self.b.source,
            )
        )
        return made if several else (made[0] if made else None)

    def _reference(self, leaf: Any) -> Any:
        """Converts an argument for a host call."""
        if not isinstance(leaf, torch.fx.Node):
            return leaf
        value = self.values[leaf]
        if isinstance(value, OnHost):
            known = value.host is not None or value.index is not None
            return Ref(index=value.index, host=value.host) if known else value.value
        if not isinstance(value, Value):
            return value
        if value.host is not None or value.index is not None:
            return Ref(index=value.index, host=value.host)
        self.used.add(value.name)
        traced = leaf.meta.get("val")
        stride = tuple(traced.stride()) if isinstance(traced, torch.Tensor) else None
        return Ref(buffer=value.name, stride=stride)

    def _output(self, entry: Any) -> Output:
        if not isinstance(entry, torch.fx.Node):
            return Output(value=entry)
        value, traced = self.values[entry], entry.meta.get("val")
        if value is None:
            return Output(value=None)
        stride = tuple(traced.stride()) if isinstance(traced, torch.Tensor) and _is_dense(traced) else None
        dtype = traced.dtype if isinstance(traced, torch.Tensor) else None
        if isinstance(value, OnHost) and value.host is None and value.index is None:
            return Output(value=value.value)
        if isinstance(value, OnHost) or value.index is not None or value.host is not None:
            return Output(host=value.host, index=value.index, stride=stride, dtype=dtype)
        self.used.add(value.name)
        return Output(buffer=value.name, stride=stride, dtype=dtype)


def source_line(node: torch.fx.Node) -> str:
    """Returns a node's ``file:line`` in the user's program, else in torch, else ""."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
    users = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    return ":".join((users or frames)[-1]) if frames else ""


def _traced(leaf: Any) -> Any:
    return leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _from_the_base(node: torch.fx.Node) -> tuple[Any, Any] | None:
    """Arguments of a host ``as_strided``, applied to the base of the operand's view chain.

    None for other operators, and if the operand is no view.
    """
    if str(node.target) != "aten.as_strided.default":
        return None
    arguments = bind(node.target, node.args, node.kwargs)
    operand = base = arguments["self"]
    traced = operand.meta["val"]
    while base.op == "call_function" and base.args and is_node(base.args[0]):
        before = base.args[0].meta.get("val")
        if not isinstance(before, torch.Tensor) or not _shares(before, traced):
            break
        base = base.args[0]
    if base is operand:
        return None
    offset = arguments["storage_offset"]
    offset = traced.storage_offset() if offset is None else offset
    return (base, arguments["size"], arguments["stride"], offset), {}


def _shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata


def _is_dense(traced: torch.Tensor) -> bool:
    """Whether a traced tensor is strided, not quantized, and on the CPU or the device."""
    is_near = traced.device.type in ("cpu", DEVICE_NAME)
    return is_near and traced.layout == torch.strided and not traced.is_quantized


def _check_format(traced: torch.Tensor) -> str:
    """The device's format name for a traced tensor. Raises NotNative if the device cannot hold it."""
    found = format_of(traced.dtype)
    if found is None:
        raise NotNative(f"the device has no format for {traced.dtype}")
    if not _is_dense(traced):
        raise NotNative(f"a {traced.layout} tensor on {traced.device}")
    return found.name


def _line(step: Step) -> str:
    """One line of ``kernels.txt``."""
    if isinstance(step, HostCall):
        return f"host   {step.node} = {step.target}  # {step.reason}"
    spec: Any = getattr(step, "spec", None)
    if spec is None:
        return f"{type(step).__name__.lower():<6} {step}"
    sides = " -> ".join(", ".join(map(_shown, side)) for side in (spec.inputs, spec.outputs))
    return f"kernel {spec.origins[0]}: {spec.unit}.{spec.op} {sides} {spec.attributes or ''}".rstrip()


def _shown(operand: Operand) -> str:
    return f"{operand.name}:{operand.layout.format}{list(operand.layout.size)}"

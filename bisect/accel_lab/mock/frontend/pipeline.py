"""The main front end: lowers an ATen graph to kernels by loop IR, fusion, layouts, tiling and memory plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from accel_lab.mock.device import Device
from accel_lab.mock.ir.loop_ir import HostNest, LoopProgram, Result
from accel_lab.mock.ir.program import (
    STATIC_INPUTS,
    Buffer,
    Constant,
    Enter,
    HostCall,
    Kernel,
    Output,
    Program,
    Ref,
    Step,
)
from accel_lab.mock.ir.text import program_text
from accel_lab.mock.lowering.graph import HostArg, lower_graph
from accel_lab.mock.spec.cache import CACHE

from .emit_specs import Emitter
from .fusion import fuse
from .layout_choice import choose_layouts
from .memory_plan import Plan, plan
from .tiling import tile


def lower(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    device: Device,
    name: str,
    *,
    native: Collection[str] | None = None,
) -> Program:
    """Lowers the graph to a program for one set of shapes. Raises LoweringError.

    ``native``: if given, only these operators (overloads or overload packets such as ``aten.add``) are
    lowered; all others run on the host. ``graph_module.meta["static_inputs"]`` has the indices of inputs that
    are the same tensors in each call.
    """
    texts = {"graph.txt": _graph_text(graph_module)}
    program = lower_graph(graph_module, example_inputs, name, native)
    texts["loop_ir.txt"] = program_text(program)
    fuse(program)
    texts["fused.txt"] = program_text(program)
    choose_layouts(program)
    program.without_dead()
    tile(program, device)
    texts["tiled.txt"] = program_text(program)
    resident = _resident(program, graph_module.meta.get(STATIC_INPUTS, ()))
    planned = plan(program, resident)
    texts["memory_plan.txt"] = planned.text
    return _program(program, planned, resident, device, texts)


def _graph_text(graph_module: torch.fx.GraphModule) -> str:
    try:
        return str(graph_module.print_readable(print_output=False))
    except Exception:  # print_readable can fail; the graph itself always prints
        return f"{graph_module.graph}\n"


def _resident(program: LoopProgram, static: Collection[int]) -> set[str]:
    """The buffers that stay on the device between runs: parameters, module buffers and constants."""
    return {
        place.name
        for place in program.buffers.values()
        if place.kind == "constant" or (place.kind == "input" and place.index in static)
    }


def _program(
    program: LoopProgram, planned: Plan, resident: set[str], device: Device, texts: dict[str, str]
) -> Program:
    buffers = program.buffers
    emitter = Emitter(program=program, addresses=planned.addresses)
    steps: list[Step] = []
    entered: set[str] = set()

    def enter(name: str) -> None:
        root = buffers[buffers[name].alias_of or name]
        if root.name in entered or root.kind not in ("input", "constant"):
            return
        entered.add(root.name)
        if root.kind == "constant":
            assert root.value is not None, root.name
            steps.append(Constant(value=root.value, buffer=root.name))
        else:
            assert root.index is not None, root.name
            steps.append(Enter(index=root.index, buffer=root.name, resident=root.name in resident))

    number = 0
    for nest in program.nests:
        for name in nest.inputs:
            enter(name)
        if isinstance(nest, HostNest):
            steps.append(_host_call(nest, planned))
            continue
        spec = emitter.spec(nest, number)
        if device.use_cache:
            spec = CACHE.of(spec)
        steps.append(Kernel(spec=spec))
        number += 1
    for result in program.results:
        if result.view is not None:
            enter(result.view.buffer)
    device_buffers = {
        place.name: Buffer(name=place.name, layout=place.layout, address=planned.addresses[root])
        for place in buffers.values()
        if (root := place.alias_of or place.name) in planned.addresses
    }
    return Program(
        name=program.name,
        front_end="main",
        buffers=device_buffers,
        steps=tuple(steps),
        outputs=tuple(_output(result) for result in program.results),
        arena_bytes=planned.arena_bytes,
        resident_bytes=planned.resident_bytes,
        texts=texts,
    )


def _host_call(nest: HostNest, planned: Plan) -> HostCall:
    def argument(leaf: Any) -> Any:
        return (
            Ref(buffer=nest.reads[leaf.key].buffer, stride=leaf.stride) if isinstance(leaf, HostArg) else leaf
        )

    return HostCall(
        node=nest.name,
        target=nest.target,
        args=pytree.tree_map(argument, nest.args),
        kwargs=pytree.tree_map(argument, nest.kwargs),
        names=nest.names,
        buffers=tuple(name if name in planned.addresses else None for name in nest.writes),
        reason=nest.reason,
        source=nest.source,
    )


def _output(result: Result) -> Output:
    return Output(
        buffer=result.view.buffer if result.view is not None else None,
        host=result.host,
        index=result.index,
        value=result.value,
        stride=result.stride,
        dtype=result.dtype,
    )

"""What the tests of the mock's front end share: a graph of a function, and its program run on a back end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from accel_lab.mock.device import Device
from accel_lab.mock.frontend import decompositions, pipeline
from accel_lab.mock.ir.program import Constant, Enter, HostCall, Kernel, Program, Ref
from accel_lab.mock.reference.back_end import ReferenceBackEnd
from accel_lab.mock.runtime.host_calls import restrided
from accel_lab.mock.runtime.memory import Memory
from accel_lab.mock.simulator.back_end import Simulator
from accel_lab.mock.spec.verifier import verify

SMALL = Device(memory_bytes=64 * 1024 * 1024)


def graph(function: Callable[..., Any], inputs: Sequence[Any]) -> torch.fx.GraphModule:
    """The ATen graph of a function, decomposed as the mock does."""
    return make_fx(function, decomposition_table=decompositions.table(), tracing_mode="fake")(*inputs)


def lowered(function: Callable[..., Any], *inputs: Any, device: Device = SMALL, **options: Any) -> Program:
    """The main front end's program of a function."""
    return pipeline.lower(graph(function, inputs), inputs, device, "test", **options)


def run(program: Program, inputs: Sequence[Any], *, device: Device = SMALL, main: bool = True) -> list[Any]:
    """The program's outputs, moved in and out by the definition of the layouts; every kernel is verified."""
    memory = Memory(device)
    back_end = Simulator(memory, device) if main else ReferenceBackEnd(memory, device)
    base = memory.allocate(program.arena_bytes)
    memory.poison(base, program.arena_bytes)
    host: dict[str, Any] = {}

    def read(name: str) -> torch.Tensor:
        buffer = program.buffers[name]
        return memory.read(buffer.layout, base + buffer.address)

    def write(name: str, value: torch.Tensor) -> None:
        buffer = program.buffers[name]
        memory.write(buffer.layout, base + buffer.address, value)

    def resolve(leaf: Any) -> Any:
        if not isinstance(leaf, Ref):
            return leaf
        if leaf.buffer is not None:
            value = read(leaf.buffer)
        else:
            value = host[leaf.host] if leaf.host is not None else inputs[leaf.index or 0]
        return restrided(value, leaf.stride) if isinstance(value, torch.Tensor) else value

    for step in program.steps:
        if isinstance(step, Enter):
            write(step.buffer, inputs[step.index])
        elif isinstance(step, Constant):
            write(step.buffer, step.value)
        elif isinstance(step, Kernel):
            assert not verify(step.spec, device, program.arena_bytes), step.spec.to_text()
            back_end.run(step.spec, base)
        else:
            assert isinstance(step, HostCall)
            args, kwargs = pytree.tree_map(resolve, (step.args, step.kwargs))
            result = step.target(*args, **kwargs)
            host[step.node] = result
            results = [result] if len(step.names) == 1 else list(result)
            for name, buffer, value in zip(step.names, step.buffers, results, strict=True):
                host[name] = value
                if buffer is not None:
                    write(buffer, value)
    found: list[Any] = []
    for output in program.outputs:
        if output.buffer is not None:
            found.append(read(output.buffer))
        elif output.host is not None:
            found.append(host[output.host])
        else:
            found.append(output.value if output.index is None else inputs[output.index])
    return found


def check(
    function: Callable[..., Any],
    *inputs: Any,
    device: Device = SMALL,
    main: bool = True,
    tolerance: dict[str, float] | None = None,
) -> Program:
    """Lower, verify, run, and compare with eager."""
    program = lowered(function, *inputs, device=device)
    wanted = pytree.tree_leaves(function(*inputs), is_leaf=lambda leaf: leaf is None)
    for got, want in zip(run(program, inputs, device=device, main=main), wanted, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want.contiguous(), equal_nan=True, **(tolerance or {}))
        else:
            assert got == want
    return program

"""Compiles one ATen graph for the mock: a front end lowers it to a program, the runtime runs it."""

from __future__ import annotations

import importlib
import logging
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from accel_lab.accelerators.constraints.catalogue import UnsupportedOnDevice

from .artifacts import write_program, write_statistics
from .ir.concrete import DataDependent, host_program, is_symbolic, make_concrete
from .ir.program import STATIC_INPUTS, Program
from .runtime.device_tensors import device_results, host_copies, is_on_device, without_device
from .runtime.output_aliases import alias_groups, share
from .runtime.run_statistics import collected
from .runtime.runner import Loaded, shared_runtime
from .settings import Settings

#: The modules of the two front ends, imported on demand.
FRONT_ENDS = {"main": "frontend.pipeline", "reference": "reference.front_end"}
#: LRU capacity: programs kept for one graph with symbolic sizes.
KEPT_PROGRAMS = 64

_log = logging.getLogger("accel_lab.mock")


class CompiledGraph:
    """The compiled form of one ATen graph: one program, or one for each set of sizes it is called with."""

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        name: str,
        settings: Settings,
        static: Collection[int] = (),
    ) -> None:
        self.graph_module = graph_module
        self.static = frozenset(static)
        self.name = name
        self.__name__ = name
        self._boxed_call = True  # on the instance: Dynamo's wrappers copy instance attributes only
        self.settings = settings
        self.runtime = shared_runtime(settings.device, settings.back_end)
        self.symbolic = is_symbolic(graph_module)
        self._on_device = without_device(graph_module)
        self._programs: OrderedDict[Any, _Ready] = OrderedDict()
        if not self.symbolic:
            self._programs[None] = self._make(graph_module, example_inputs, name)

    def __call__(self, args: list[Any]) -> list[Any]:
        given = list(args)
        if isinstance(args, list):
            args.clear()
        if not any(self._on_device) and not any(map(is_on_device, given)):
            return self.on_host(given)
        inputs = host_copies(given)
        return device_results(self.on_host(inputs), self._on_device, given, inputs)

    def on_host(self, inputs: list[Any]) -> list[Any]:
        """Runs the graph on host tensors, which include host copies of device tensors."""
        ready = self._ready(inputs)
        values = ready.loaded.run(inputs, self._on_device)
        share(values, ready.traced, ready.groups)
        if self.settings.artifacts:
            write_statistics(self.settings.artifacts, collected())
        return values

    @property
    def loaded(self) -> list[Loaded]:
        """The programs made so far."""
        return [ready.loaded for ready in self._programs.values()]

    def _ready(self, inputs: Sequence[Any]) -> _Ready:
        if not self.symbolic:
            return self._programs[None]
        key = tuple(_key(value) for value in inputs)
        found = self._programs.get(key)
        if found is None:
            name = f"{self.name}_{len(self._programs)}"
            try:
                graph = make_concrete(self.graph_module, inputs)
            except DataDependent as reason:
                program = host_program(self.graph_module, name, self.settings.front_end, str(reason))
                found = self._finish(program, [])
            else:
                found = self._make(graph, inputs, name)
            self._programs[key] = found
            if len(self._programs) > KEPT_PROGRAMS:
                self._programs.popitem(last=False)[1].loaded.release()
        self._programs.move_to_end(key)
        return found

    def _make(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], name: str) -> _Ready:
        settings = self.settings
        graph.meta[STATIC_INPUTS] = self.static
        lower = importlib.import_module(f"{__package__}.{FRONT_ENDS[settings.front_end]}").lower
        # Dynamo compiles under a fake mode; tensors that a front end computes itself must be real.
        with collected().timed("lower"), _disable_current_modes():
            program = lower(graph, inputs, settings.device, name)
        results = list(graph.graph.nodes)[-1].args[0]
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        traced = [entry.meta.get("val") if isinstance(entry, torch.fx.Node) else entry for entry in results]
        return self._finish(program, traced)

    def _finish(self, program: Program, traced: list[Any]) -> _Ready:
        if self.settings.artifacts:
            write_program(self.settings.artifacts, program)
        if self.settings.strict and program.fallbacks:
            raise UnsupportedOnDevice(_refusal(program))
        for call in program.fallbacks:
            _log.info("%s: %s runs on the host: %s %s", program.name, call.target, call.reason, call.source)
        with _disable_current_modes():
            return _Ready(self.runtime.load(program), traced)


class _Ready:
    """A loaded program with the traced values of its outputs and their alias groups."""

    def __init__(self, loaded: Loaded, traced: list[Any]) -> None:
        self.loaded = loaded
        self.traced = traced
        inputs = {o.index for o in loaded.program.outputs if o.index is not None}
        self.groups = [] if inputs else alias_groups(traced)


def _key(value: Any) -> Any:
    """The properties of an input that a program is specialized on."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype)
    return (type(value), value)


def _refusal(program: Program) -> str:
    lines = [
        f"  {call.target}: {call.reason}" + (f" ({call.source})" if call.source else "")
        for call in program.fallbacks
    ]
    return (
        f"{program.name}: strict mode (MOCK_STRICT): operators that the device does not support "
        f"({len(lines)}):\n" + "\n".join(lines)
    )

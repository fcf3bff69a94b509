"""``torch.compile(backend="mock")``: AOTAutograd makes ATen graphs, a front end programs, the runtime runs"""

from __future__ import annotations

import importlib
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import faults
from .artifacts import write_program, write_statistics
from .constraints.catalogue import Constraint, UnsupportedOnDevice
from .constraints.choice import VARIABLES as CHOICES
from .constraints.choice import Choice, choose
from .constraints.watch import Watch
from .device import Device
from .frontend import decompositions
from .ir.concrete import DataDependent, host_program, is_symbolic, make_concrete
from .ir.program import STATIC_INPUTS, Program
from .runtime.output_aliases import alias_groups, share
from .runtime.run_statistics import collected
from .runtime.runner import Loaded, shared_runtime
from .settings import Settings, read_settings

FRONT_ENDS = {"main": "front_end", "reference": "reference_front_end"}
#: Programs that one graph with symbolic sizes keeps, the longest unused dropped first.
KEPT_PROGRAMS = 64

_log = logging.getLogger("accel_lab.mock")
_numbers = itertools.count()
_noticed: set[str] = set()

Compiled = Callable[..., Any]


def mock_backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **given: Any) -> Compiled:
    """The backend for ``torch.compile``, set up by the environment; ``options`` may name settings."""
    options = given.get("options") or {}
    return aot_mock_backend(**options)(gm, example_inputs)


def aot_mock_backend(
    *,
    strict: bool | None = None,
    constraints: Sequence[str | Constraint] | None = None,
    dtypes: Sequence[str | torch.dtype] | None = None,
    denied: Sequence[Any] | None = None,
    device: Device | None = None,
    front_end: str | None = None,
    back_end: str | None = None,
    artifacts: str | None = None,
    table: Mapping[str, object] | None = None,
    **others: object,
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]:
    """A backend for ``torch.compile`` with settings of its own.

    What is not given comes from the environment, then from ``table`` (a project's ``[tool.accel-lab.mock]``).
    ``constraints`` are names or objects, all of the mock's unless given; ``dtypes`` narrows what they allow,
    ``denied`` names operators that are refused.
    Wrong values raise SettingError here, not at a run.
    """
    table = dict(table or {})
    own = {key: table.pop(key) for key in CHOICES if key in table}
    settings = read_settings(
        table,
        given={
            "strict": strict,
            "device": device,
            "front_end": front_end,
            "back_end": back_end,
            "artifacts": artifacts,
            **others,
        },
    )
    choice = choose(
        settings, given={"constraints": constraints, "dtypes": dtypes, "denied": denied}, table=own
    )

    def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Compiled:
        return _compile(gm, example_inputs, settings, choice)

    return compile_graph


def _compile(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: Settings,
    choice: Choice,
) -> Compiled:
    """Hand a Dynamo graph to AOTAutograd, which calls back with the ATen graphs."""
    from torch._dynamo.backends.common import aot_autograd

    _notice_faults()
    for value in example_inputs:
        if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta"):
            raise UnsupportedOnDevice(
                f"the mock accelerator takes tensors of the CPU and brings them to the device itself; "
                f"an input is on {value.device}"
            )
    number = next(_numbers)
    collected().graphs += 1
    watch = Watch(
        choice,
        settings,
        gm,
        example_inputs,
        f"graph{number}",
        lambda violation: collected().violations.append(violation.to_json()),
    )
    watch.dynamo()

    def compiler(phase: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]:
        def lower(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
            watch.aten(graph, phase)
            static = () if phase == "backward" else _static_inputs()
            return CompiledGraph(graph, inputs, f"graph{number}_{phase}", settings, static)

        return lower

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions.table(),
    )
    return backend(gm, example_inputs)  # type: ignore[no-any-return]


def _static_inputs() -> Collection[int]:
    """The inputs of the graph that is being compiled that are parameters or buffers.

    AOTAutograd knows them while it calls the forward compiler (``torch/_guards.py``, ``TracingContext``);
    in the backward they would be those of the forward. What a release does not tell is transferred at each
    call.
    """
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    found = getattr(getattr(context, "fw_metadata", None), "static_input_indices", None)
    return tuple(found or ())


class CompiledGraph:
    """One ATen graph: its program, or one for each set of sizes that it is called with."""

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
        self._boxed_call = True  # of the instance: Dynamo's wrappers copy that, not what the class has
        self.settings = settings
        self.runtime = shared_runtime(settings.device, settings.back_end)
        self.symbolic = is_symbolic(graph_module)
        self._programs: OrderedDict[Any, _Ready] = OrderedDict()
        if not self.symbolic:
            self._programs[None] = self._make(graph_module, example_inputs, name)

    def __call__(self, args: list[Any]) -> list[Any]:
        inputs = list(args)
        if isinstance(args, list):
            args.clear()
        ready = self._ready(inputs)
        values = ready.loaded.run(inputs)
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
        """Lower a concrete graph."""
        settings = self.settings
        graph.meta[STATIC_INPUTS] = self.static
        lower = importlib.import_module(f"{__package__}.{FRONT_ENDS[settings.front_end]}").lower
        # Dynamo compiles under a fake mode: what a front end computes with tensors of its own must be real.
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
    """A program with what its outputs were when they were traced."""

    def __init__(self, loaded: Loaded, traced: list[Any]) -> None:
        self.loaded = loaded
        self.traced = traced
        inputs = {o.index for o in loaded.program.outputs if o.index is not None}
        self.groups = [] if inputs else alias_groups(traced)


def _key(value: Any) -> Any:
    """What a program depends on of one input."""
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.dtype)
    return (type(value), value)


def _refusal(program: Program) -> str:
    lines = [
        f"  {call.target}: {call.reason}" + (f" ({call.source})" if call.source else "")
        for call in program.fallbacks
    ]
    return (
        f"{program.name}: strict mode (MOCK_STRICT), and operators that the device does not run "
        f"({len(lines)}):\n" + "\n".join(lines)
    )


def _notice_faults() -> None:
    """Say loudly, once for each choice, that results are wrong on purpose."""
    chosen = faults.chosen()
    text = ", ".join(f"{name} ({faults.CATALOGUE[name].layer}, seed {seed})" for name, seed in chosen.items())
    if text and text not in _noticed:
        _noticed.add(text)
        _log.warning("MOCK FAULTS ARE ON, results are wrong on purpose: %s", text)


def register() -> None:
    """Enter the backend as "mock" with Dynamo, where the installed entry point did not."""
    from torch._dynamo.backends import registry

    if "mock" not in registry.list_backends(exclude_tags=()):
        registry.register_backend(compiler_fn=mock_backend, name="mock")

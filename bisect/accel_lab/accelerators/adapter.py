"""Bring your own accelerator: what a backend below torch.compile provides to the lab.

A package names its adapter in the entry-point group ``accel_lab.adapters`` (see :mod:`.discovery`).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .capabilities import AcceleratorCapabilities
from .constraints.catalogue import Constraint
from .constraints.repro import ReproTarget
from .constraints.watch import Watch
from .settings import SettingError

Compiled = Callable[..., Any]
GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]
#: Under these keys of ``graph_module.meta`` a graph that is to be compiled says its name, and whether it is
#: "forward", "backward" or "inference".
GRAPH_NAME, DIRECTION = "accel_lab.name", "accel_lab.direction"


@dataclass(frozen=True, kw_only=True)
class AdapterRung:
    """A rung of an adapter's own, to compare with its usual one: a front end alone, another back end.

    ``blames`` is what is at fault where this rung fails and the one before it passes: words that end in
    front end, back end or transfer become the stage of the verdict.
    """

    name: str
    blames: str
    compile: GraphCompiler


@dataclass(frozen=True, kw_only=True)
class AdapterPart:
    """A part of the accelerator that can be replaced by an independent one, or switched off.

    ``name`` is one of those that :mod:`accel_lab.search.accelerator.replacements` reads, ``options`` what
    :meth:`AcceleratorAdapter.configured` takes for it.
    """

    name: str
    options: Mapping[str, Any]


@dataclass
class AdapterStatistics:
    """What all graphs of this process cost and broke, as far as an adapter counts nothing of its own."""

    graphs: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All counters."""
        return {"graphs": self.graphs, "violations": [dict(entry) for entry in self.violations]}


class AcceleratorAdapter(ABC):
    """One accelerator. Subclasses give ``name``, ``capabilities`` and :meth:`compile`; the rest may stay.

    ``blames``: what is at fault where :meth:`compile` fails and the last of :meth:`rungs` passes.
    """

    blames = ""
    #: How users turn strict mode on, for messages.
    strict_switch = ""
    _numbers = itertools.count()

    def __init__(self) -> None:
        self._statistics = AdapterStatistics()

    @property
    @abstractmethod
    def name(self) -> str:
        """What users call it."""

    @property
    @abstractmethod
    def capabilities(self) -> AcceleratorCapabilities:
        """What the device can do."""

    @abstractmethod
    def compile(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        """One functional ATen graph as a callable over its inputs; it returns the graph's outputs in order.

        A callable with ``_boxed_call = True`` takes the inputs as one list, which it may empty.
        """

    def decompositions(self) -> Mapping[Any, Callable[..., Any]] | None:
        """Operator overloads to what takes them apart before :meth:`compile`; None for none."""
        return None

    def constraints(self) -> Sequence[Constraint]:
        """What a graph must keep to; made from the capabilities unless a subclass says more."""
        return self.capabilities.constraints()

    def refusals(
        self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Mapping[str, str]:
        """What :meth:`compile` would leave to the host: name of a node to the reason. Nothing is run."""
        return {}

    def repro_target(self) -> ReproTarget | None:
        """How a script of its own sets this accelerator up; None where none can be written."""
        return None

    def environment(self) -> Sequence[str]:
        """The names of the environment variables that results depend on; they are recorded with a run."""
        return ()

    def rungs(self) -> Sequence[AdapterRung]:
        """Further rungs, the nearest to the host first."""
        return ()

    def parts(self) -> Sequence[AdapterPart]:
        """What can be replaced or switched off one by one."""
        return ()

    def faults(self) -> Sequence[str]:
        """The names of the faults that are seeded on purpose and are on."""
        return ()

    def configured(self, options: Mapping[str, Any]) -> AcceleratorAdapter:
        """The same accelerator with options of its own. Raises SettingError for what it does not have."""
        if options:
            raise SettingError(f"the adapter {self.name} has no options: {', '.join(sorted(options))}")
        return self

    def observations(self) -> Mapping[str, Any]:
        """What options of :meth:`configured` asked to be recorded of this run."""
        return {}

    def keep_files(self, folder: str) -> None:
        """Write what explains a run below ``folder`` from now on: transfers, plans, kernels, as text files.

        Called once, before the first region is compiled, in the run whose files a bundle has under
        ``accelerator/``.
        """
        return

    def statistics(self) -> Any:
        """What all graphs of this process cost and broke: a mapping, or an object with ``to_json``."""
        return self._statistics

    @property
    def counters(self) -> Any:
        """Where graphs and violations are counted: it has ``graphs`` and the list ``violations``."""
        return self._statistics

    @property
    def strict(self) -> bool:
        """Whether a broken constraint is an error unless ``options`` say otherwise."""
        return False

    @property
    def repro_folder(self) -> str | None:
        """Where strict mode writes a script that breaks the same constraint; None for a temporary folder."""
        return None

    def admit(self, example_inputs: Sequence[Any]) -> None:
        """Called before a region is compiled; raises what ends the compilation."""
        return

    def graph_name(self) -> str:
        """What the next region is called in logs and artifacts."""
        return f"{self.name}{next(self._numbers)}"

    def backend(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Compiled:
        """The backend for ``torch.compile``: constraints, AOTAutograd, then :meth:`compile` for each graph.

        ``options={"strict": True}`` makes a broken constraint an error.
        """
        return self._backend(gm, example_inputs, self.compile, options.get("options") or {})

    def backend_at(self, rung: AdapterRung) -> Callable[..., Compiled]:
        """The same backend with one of :meth:`rungs` in place of :meth:`compile`."""

        def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Compiled:
            return self._backend(gm, example_inputs, rung.compile, options.get("options") or {})

        return backend

    def _backend(
        self,
        gm: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        compiler: GraphCompiler,
        options: Mapping[str, Any],
    ) -> Compiled:
        from torch._dynamo.backends.common import aot_autograd

        self.admit(example_inputs)
        self.counters.graphs += 1
        watch = Watch(
            self.constraints(),
            gm,
            example_inputs,
            self.graph_name(),
            on_violation=lambda violation: self.counters.violations.append(violation.to_json()),
            strict=bool(options.get("strict", self.strict)),
            switch=self.strict_switch,
            target=self.repro_target(),
            repro_folder=self.repro_folder,
        )
        watch.dynamo()

        def phase(direction: str) -> GraphCompiler:
            def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
                watch.aten(graph, direction)
                graph.meta[GRAPH_NAME] = f"{watch.name}_{direction}"
                graph.meta[DIRECTION] = direction
                return _boxed(compiler(graph, inputs))

            return compile_graph

        table = self.decompositions()
        return aot_autograd(  # type: ignore[no-any-return]
            fw_compiler=phase("forward"),
            bw_compiler=phase("backward"),
            inference_compiler=phase("inference"),
            **({} if table is None else {"decompositions": dict(table)}),
        )(gm, example_inputs)


def _boxed(compiled: Compiled) -> Compiled:
    if getattr(compiled, "_boxed_call", False):
        return compiled

    def call(args: list[Any]) -> Any:
        values = list(args)
        args.clear()
        result = compiled(*values)
        return result if isinstance(result, (tuple, list)) else [result]

    call._boxed_call = True  # type: ignore[attr-defined]
    return call

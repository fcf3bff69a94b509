"""The interface that an accelerator's backend implements to plug into the lab.

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
#: Keys of ``graph_module.meta``: the graph's name, and its direction ("forward", "backward", "inference").
GRAPH_NAME, DIRECTION = "accel_lab.name", "accel_lab.direction"


@dataclass(frozen=True, kw_only=True)
class AdapterRung:
    """An extra rung of an adapter, such as its front end alone or another back end.

    ``blames`` names the culprit if this rung fails and the one before it passes. A text that ends in "front
    end", "back end" or "transfer" also sets the stage of the verdict.
    """

    name: str
    blames: str
    compile: GraphCompiler


@dataclass(frozen=True, kw_only=True)
class AdapterPart:
    """A part of the accelerator that can be switched off or replaced by an independent implementation.

    ``name`` is a value of ``Replacement`` in :mod:`accel_lab.search.accelerator.replacements`. ``options``
    are passed to :meth:`AcceleratorAdapter.configured` to do so.
    """

    name: str
    options: Mapping[str, Any]


@dataclass
class AdapterStatistics:
    """Counts graphs and violations of this process, for adapters without counters of their own."""

    graphs: int = 0
    violations: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """All counters."""
        return {"graphs": self.graphs, "violations": [dict(entry) for entry in self.violations]}


class AcceleratorAdapter(ABC):
    """Base class of accelerators. Subclasses define ``name``, ``capabilities`` and :meth:`compile`.

    All other members have defaults. ``blames`` names the culprit if :meth:`compile` fails and the last of
    :meth:`rungs` passes.
    """

    blames = ""
    #: How users turn strict mode on; used in messages.
    strict_switch = ""
    _numbers = itertools.count()

    def __init__(self) -> None:
        self._statistics = AdapterStatistics()

    @property
    @abstractmethod
    def name(self) -> str:
        """The adapter's name, as users type it."""

    @property
    @abstractmethod
    def capabilities(self) -> AcceleratorCapabilities:
        """The capabilities of the device."""

    @abstractmethod
    def compile(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        """Compiles a functional ATen graph to a callable from its inputs to its outputs, in order.

        A callable with ``_boxed_call = True`` takes the inputs as one list, which it may empty.
        """

    def decompositions(self) -> Mapping[Any, Callable[..., Any]] | None:
        """Returns the decompositions to apply before :meth:`compile`, by operator overload; None for none."""
        return None

    def constraints(self) -> Sequence[Constraint]:
        """The constraints on graphs; derived from the capabilities unless overridden."""
        return self.capabilities.constraints()

    def refusals(
        self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Mapping[str, str]:
        """Returns the nodes that :meth:`compile` would leave to the host: name to reason. Runs nothing."""
        return {}

    def repro_target(self) -> ReproTarget | None:
        """How a standalone script sets up this accelerator; None if no script can be written."""
        return None

    def environment(self) -> Sequence[str]:
        """Names of the environment variables that affect results; they are recorded with a run."""
        return ()

    def rungs(self) -> Sequence[AdapterRung]:
        """Further rungs, those closest to the host first."""
        return ()

    def parts(self) -> Sequence[AdapterPart]:
        """The parts that can be replaced or switched off individually."""
        return ()

    def faults(self) -> Sequence[str]:
        """Names of the deliberately seeded faults that are active."""
        return ()

    def configured(self, options: Mapping[str, Any]) -> AcceleratorAdapter:
        """Returns this accelerator with other options. Raises SettingError for an unknown option."""
        if options:
            raise SettingError(f"the adapter {self.name} has no options: {', '.join(sorted(options))}")
        return self

    def observations(self) -> Mapping[str, Any]:
        """What this run recorded because options of :meth:`configured` asked for it."""
        return {}

    def keep_files(self, folder: str) -> None:
        """Starts writing transfers, plans and kernels of the run below ``folder``, as text files.

        Called once, before the first region is compiled. A bundle has the files of that run under
        ``accelerator/``.
        """
        return

    def statistics(self) -> Any:
        """Statistics over all graphs of this process: a mapping, or an object with ``to_json``."""
        return self._statistics

    @property
    def counters(self) -> Any:
        """The object with this process's counters: ``graphs`` and the list ``violations``."""
        return self._statistics

    @property
    def strict(self) -> bool:
        """Whether a violated constraint is an error by default; ``options`` override it."""
        return False

    @property
    def repro_folder(self) -> str | None:
        """The folder for strict mode's repro scripts; None for a temporary folder."""
        return None

    def admit(self, example_inputs: Sequence[Any]) -> None:
        """Hook called before a region is compiled; raises to abort the compilation."""
        return

    def graph_name(self) -> str:
        """Returns the name of the next region for logs and artifacts."""
        return f"{self.name}{next(self._numbers)}"

    def backend(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Compiled:
        """The backend for ``torch.compile``: checks constraints, runs AOTAutograd, compiles each graph.

        ``options={"strict": True}`` makes a violated constraint an error (ConstraintError).
        """
        return self._backend(gm, example_inputs, self.compile, options.get("options") or {})

    def backend_at(self, rung: AdapterRung) -> Callable[..., Compiled]:
        """Returns the backend with ``rung`` in place of :meth:`compile`."""

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

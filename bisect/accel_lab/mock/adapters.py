"""Bring your own accelerator: what a backend below torch.compile tells the lab, and how the lab finds it.

A package names its adapter in the entry-point group ``accel_lab.adapters``. The mock is the reference.
"""

from __future__ import annotations

import inspect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .constraints.catalogue import Constraint
from .constraints.choice import DEVICE_DTYPES, Choice, choose, denied_operators, dtype_of
from .constraints.node_checks import DtypeConstraint
from .constraints.watch import Watch
from .device import Device
from .discovery import MOCK, AdapterError, registered
from .runtime.run_statistics import Statistics
from .settings import Settings, read_settings

Compiled = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class AcceleratorCapabilities:
    """What a device can do; from it the constraints over its graphs are made.

    ``dtypes``: torch dtypes or their names. ``int64``: whether the device computes with it (else it leaves
    the dtypes). ``alignment`` is in elements along the last dimension. ``supported``: operators in any
    spelling that torch knows, None if ``denied`` alone says what is refused.
    """

    dtypes: frozenset[Any] = DEVICE_DTYPES
    max_memory: int = Device().memory_bytes
    alignment: int = 1
    supported: frozenset[Any] | None = None
    denied: frozenset[Any] = frozenset()
    int64: bool = True
    contiguous_only: bool = False

    def __post_init__(self) -> None:
        """Bring all names to one form. Raises SettingError (a ValueError) with what is allowed."""
        dtypes = frozenset(dtype_of("dtypes", dtype) for dtype in self.dtypes)
        object.__setattr__(self, "dtypes", dtypes if self.int64 else dtypes - {torch.int64})
        object.__setattr__(self, "denied", denied_operators("denied", self.denied))
        if self.supported is not None:
            object.__setattr__(self, "supported", denied_operators("supported", self.supported))
        self.settings()

    def settings(self, strict: bool | None = None) -> Settings:
        """The settings of the constraints."""
        given = {"alignment": self.alignment, "max_memory": self.max_memory, "strict": strict}
        return read_settings(None, {}, given)

    def constraints(self) -> tuple[Constraint, ...]:
        """What a graph must keep to."""
        names = [
            "alignment",
            "memory",
            "peak_memory",
            "unsupported",
            *(["layout"] if self.contiguous_only else []),
        ]
        chosen = choose(
            self.settings(),
            given={"constraints": names, "denied": self.denied},
            environment={},
            supported=self.supported,
            of_mock=False,
        )
        return (DtypeConstraint(allowed=self.dtypes), *chosen.constraints)


@dataclass(frozen=True, kw_only=True)
class AdapterRung:
    """A way down of an adapter's own, to set beside its usual one: a front end alone, another back end.

    ``blames`` is what is at fault where this rung fails and the one before it passes: words that end in
    front end, back end or transfer become the stage of the verdict.
    """

    name: str
    blames: str
    compile: Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]


class AcceleratorAdapter(ABC):
    """One accelerator. Subclasses give ``name``, ``capabilities`` and :meth:`compile`; the rest may stay.

    ``blames``: what is at fault where :meth:`compile` fails and the last of :meth:`rungs` passes.
    """

    blames = ""
    _numbers = itertools.count()

    def __init__(self) -> None:
        self._statistics = Statistics()

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

    def environment(self) -> Sequence[str]:
        """The names of the environment variables that change what it does: a bundle sets them again."""
        return ()

    def constraints(self) -> Sequence[Constraint]:
        """What a graph must keep to; made from the capabilities unless a subclass says more."""
        return self.capabilities.constraints()

    def rungs(self) -> Sequence[AdapterRung]:
        """Further ways down, the nearest to the host first."""
        return ()

    def statistics(self) -> Statistics | Mapping[str, Any]:
        """What all graphs of this process cost and broke."""
        return self._statistics

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
        compiler: Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled],
        options: Mapping[str, Any],
    ) -> Compiled:
        from torch._dynamo.backends.common import aot_autograd

        self._statistics.graphs += 1
        choice = Choice(constraints=tuple(self.constraints()), environment=None)
        settings = self.capabilities.settings(options.get("strict"))
        name = f"{self.name}{next(self._numbers)}"
        watch = Watch(choice, settings, gm, example_inputs, name, self._note)
        watch.dynamo()

        def phase(direction: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]:
            def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
                watch.aten(graph, direction)
                return _boxed(compiler(graph, inputs))

            return compile_graph

        table = self.decompositions()
        return aot_autograd(  # type: ignore[no-any-return]
            fw_compiler=phase("forward"),
            bw_compiler=phase("backward"),
            inference_compiler=phase("inference"),
            **({} if table is None else {"decompositions": dict(table)}),
        )(gm, example_inputs)

    def _note(self, violation: Any) -> None:
        self._statistics.violations.append(violation.to_json())


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


class MockAdapter(AcceleratorAdapter):
    """The mock as an adapter: the reference implementation, set up by its environment variables."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self._settings = read_settings() if settings is None else settings

    @property
    def name(self) -> str:
        return "mock"

    @property
    def capabilities(self) -> AcceleratorCapabilities:
        device = self._settings.device
        return AcceleratorCapabilities(max_memory=device.memory_bytes, alignment=self._settings.alignment)

    def constraints(self) -> Sequence[Constraint]:
        return choose(self._settings).constraints

    def compile(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        return self._compile(graph_module, example_inputs, self._settings)

    def decompositions(self) -> Mapping[Any, Callable[..., Any]]:
        from .frontend.decompositions import table

        return table()

    def rungs(self) -> Sequence[AdapterRung]:
        ways = (
            ("reference", "reference", "mock.transfer"),
            ("reference", "main", "mock.back_end"),
            ("main", "reference", "mock.front_end"),
        )

        def way(front_end: str, back_end: str) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Compiled]:
            settings = replace(self._settings, front_end=front_end, back_end=back_end)
            return lambda graph, inputs: self._compile(graph, inputs, settings)

        return [
            AdapterRung(name=f"mock {front_end}/{back_end}", blames=blames, compile=way(front_end, back_end))
            for front_end, back_end, blames in ways
        ]

    def statistics(self) -> Statistics:
        from .runtime.run_statistics import collected

        return replace(collected(), violations=self._statistics.violations)

    def _compile(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], settings: Settings) -> Compiled:
        from .backend import CompiledGraph

        return CompiledGraph(graph, inputs, f"mock_{next(self._numbers)}", settings)


@dataclass(frozen=True, kw_only=True)
class _BuiltIn:
    """Stands beside the entry points of packages for what the lab has itself."""

    name: str
    value: str
    made: Callable[[], AcceleratorAdapter] = field(repr=False)

    def load(self) -> Callable[[], AcceleratorAdapter]:
        """What an entry point would load."""
        return self.made


_OWN = _BuiltIn(name=MOCK, value="accel_lab.mock.adapters:MockAdapter", made=MockAdapter)


def adapters() -> dict[str, Any]:
    """Name to entry point of all adapters that can be loaded here; nothing is imported for it.

    Raises AdapterError where two packages use one name.
    """
    return {_OWN.name: _OWN, **registered()}


def load_adapter(name: str) -> AcceleratorAdapter:
    """The adapter of that name, made and looked over. Raises AdapterError."""
    known = adapters()
    entry = known.get(name)
    if entry is None:
        raise AdapterError(
            f"there is no adapter {name!r} in this environment; there is {', '.join(sorted(known))}"
        )
    try:
        loaded = entry.load()
    except Exception as error:
        raise AdapterError(
            f"adapter {name!r} ({entry.value}) cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return adapter_from(loaded, f"adapter {name!r} ({entry.value})")


def adapter_from(loaded: Any, what: str = "the adapter") -> AcceleratorAdapter:
    """An adapter given as class, as function that makes one, or as it is. Raises AdapterError."""
    made = loaded
    if not isinstance(loaded, AcceleratorAdapter):
        if inspect.isclass(loaded) and not issubclass(loaded, AcceleratorAdapter):
            raise AdapterError(f"{what} is the class {loaded.__qualname__}, not an AcceleratorAdapter")
        if inspect.isabstract(loaded):
            missing = ", ".join(sorted(loaded.__abstractmethods__))
            raise AdapterError(f"{what} does not define {missing}")
        if not callable(loaded):
            raise AdapterError(f"{what} is a {type(loaded).__name__}, not an AcceleratorAdapter")
        try:
            made = loaded()
        except Exception as error:
            raise AdapterError(f"{what} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(made, AcceleratorAdapter):
        raise AdapterError(f"{what} gives a {type(made).__name__}, not an AcceleratorAdapter")
    try:
        name: Any = made.name
        capabilities: Any = made.capabilities
    except Exception as error:
        raise AdapterError(
            f"{what} does not tell its capabilities: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(name, str) or not name:
        raise AdapterError(f"{what} has the name {name!r}, which is no text")
    if not isinstance(capabilities, AcceleratorCapabilities):
        kind = type(capabilities).__name__
        raise AdapterError(f"{what} has capabilities of type {kind}, not AcceleratorCapabilities")
    if not hasattr(made, "_statistics"):
        raise AdapterError(f"{what} has an __init__ that does not call super().__init__()")
    return made

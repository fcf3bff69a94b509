"""The adapter of the mock accelerator, configured by environment variables and options."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from accel_lab.accelerators.adapter import (
    DIRECTION,
    GRAPH_NAME,
    AcceleratorAdapter,
    AdapterPart,
    AdapterRung,
    Compiled,
)
from accel_lab.accelerators.capabilities import AcceleratorCapabilities
from accel_lab.accelerators.constraints.catalogue import Constraint, UnsupportedOnDevice
from accel_lab.accelerators.constraints.repro import ReproTarget

from . import faults
from .constraints import choose, repro_target
from .ir.concrete import is_symbolic
from .runtime.device_tensors import NAME as DEVICE_NAME
from .runtime.run_statistics import Statistics, collected
from .settings import CONSTRAINT_VARIABLES, VARIABLES, Settings, read_settings

if TYPE_CHECKING:
    from .instruments import Instruments

_log = logging.getLogger("accel_lab.mock")
_noticed: set[str] = set()

#: The parts that can be replaced or switched off, and the options that do it.
PARTS: dict[str, dict[str, Any]] = {
    "reference_back_end": {"back_end": "reference"},
    "reference_front_end": {"front_end": "reference"},
    "both_references": {"front_end": "reference", "back_end": "reference"},
    "transfer_by_definition": {"transfer": "definition"},
    "host_calls_apart": {"host": "apart"},
    "cache_off": {"cache": False},
    "scratchpad_off": {"scratchpad": False},
    "one_core": {"cores": 1},
    "poison_off": {"poison": False},
}


class MockAdapter(AcceleratorAdapter):
    """The mock accelerator.

    ``given`` has keys of the settings and of the constraints. ``table`` is a project's
    ``[tool.accel-lab.mock]``. Raises SettingError for invalid values.
    """

    strict_switch = "MOCK_STRICT"
    _graphs = itertools.count()

    def __init__(
        self,
        given: Mapping[str, Any] | None = None,
        *,
        table: Mapping[str, object] | None = None,
        instruments: Instruments | None = None,
    ) -> None:
        super().__init__()
        self._given, self._table = dict(given or {}), dict(table or {})
        chosen, of_constraints = _parted(self._given)
        table, table_of_constraints = _parted(self._table)
        self._settings = read_settings(table, given=chosen)
        self._choice = choose(self._settings, given=of_constraints, table=table_of_constraints)
        self._instruments = instruments

    @property
    def name(self) -> str:
        return "mock"

    @property
    def capabilities(self) -> AcceleratorCapabilities:
        device = self._settings.device
        return AcceleratorCapabilities(max_memory=device.memory_bytes, alignment=self._settings.alignment)

    @property
    def strict(self) -> bool:
        return self._settings.strict

    @property
    def repro_folder(self) -> str | None:
        return self._settings.artifacts or None

    def constraints(self) -> Sequence[Constraint]:
        return self._choice.constraints

    def repro_target(self) -> ReproTarget | None:
        return repro_target(self._settings, self._choice)

    def environment(self) -> Sequence[str]:
        return VARIABLES

    def decompositions(self) -> Mapping[Any, Callable[..., Any]]:
        from .frontend.decompositions import table

        return table()

    def compile(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Compiled:
        return self._compile(graph_module, example_inputs, self._settings)

    def refusals(
        self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]
    ) -> Mapping[str, str]:
        """Returns the nodes that the main front end leaves to the host; empty for a symbolic graph."""
        if is_symbolic(graph_module):
            return {}
        from .frontend.pipeline import lower

        with _disable_current_modes():
            program = lower(graph_module, example_inputs, self._settings.device, "refusals")
        return {call.node: call.reason for call in program.fallbacks}

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

    def parts(self) -> Sequence[AdapterPart]:
        return [AdapterPart(name=name, options=dict(options)) for name, options in PARTS.items()]

    def faults(self) -> Sequence[str]:
        return sorted(faults.chosen())

    def configured(self, options: Mapping[str, Any]) -> MockAdapter:
        """Returns the mock with other settings and the instruments of :mod:`.instruments`."""
        from .instruments import INSTRUMENTS, Instruments

        instruments = Instruments({key: options[key] for key in INSTRUMENTS if key in options})
        given = {key: value for key, value in options.items() if key not in INSTRUMENTS}
        given.update(instruments.settings)
        return MockAdapter({**self._given, **given}, table=self._table, instruments=instruments)

    def observations(self) -> Mapping[str, Any]:
        seen = self._instruments.observations() if self._instruments is not None else {}
        return {"statistics": collected().to_json(), **seen}

    def keep_files(self, folder: str) -> None:
        """Writes the texts and specs of each program and the log of transfers below ``folder``."""
        from .runtime.transfer import log_transfers

        self._settings = replace(self._settings, artifacts=folder)
        log_transfers(folder)

    def statistics(self) -> Statistics:
        return collected()

    @property
    def counters(self) -> Statistics:
        return collected()

    def admit(self, example_inputs: Sequence[Any]) -> None:
        """Warns if faults are active; raises UnsupportedOnDevice for inputs on other devices."""
        _notice_faults()
        if self._instruments is not None:
            self._instruments.install()
        for value in example_inputs:
            if isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta", DEVICE_NAME):
                raise UnsupportedOnDevice(
                    f"the mock accelerator accepts tensors on cpu and {DEVICE_NAME}; "
                    f"an input is on {value.device}"
                )

    def graph_name(self) -> str:
        return f"graph{next(self._graphs)}"

    @staticmethod
    def _compile(graph: torch.fx.GraphModule, inputs: Sequence[Any], settings: Settings) -> Compiled:
        from .compiled_graph import CompiledGraph

        static = () if graph.meta.get(DIRECTION) == "backward" else _static_inputs()
        return CompiledGraph(graph, inputs, str(graph.meta.get(GRAPH_NAME, "graph")), settings, static)


def _parted(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits settings into those of the device and those of the constraints."""
    own = {key: value for key, value in given.items() if key not in CONSTRAINT_VARIABLES}
    return own, {key: value for key, value in given.items() if key in CONSTRAINT_VARIABLES}


def _static_inputs() -> Collection[int]:
    """Indices of the inputs that are parameters or buffers, of the graph being compiled.

    AOTAutograd sets them while it calls the forward compiler (``torch/_guards.py``, ``TracingContext``);
    during the backward they would be the forward's. Without this information an input is transferred at each
    call.
    """
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    found = getattr(getattr(context, "fw_metadata", None), "static_input_indices", None)
    return tuple(found or ())


def _notice_faults() -> None:
    """Warns, once for each set of faults, that results are wrong on purpose."""
    chosen = faults.chosen()
    text = ", ".join(f"{name} ({faults.CATALOGUE[name].layer}, seed {seed})" for name, seed in chosen.items())
    if text and text not in _noticed:
        _noticed.add(text)
        _log.warning("MOCK FAULTS ARE ON, results are wrong on purpose: %s", text)

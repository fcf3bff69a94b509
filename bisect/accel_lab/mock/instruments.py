"""Instruments of a run on the mock: replaced transfers and host calls, comparisons, kernel traces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runtime.kernel_trace import KernelTrace
    from .runtime.step_check import StepCheck

#: Options of :meth:`.adapter.MockAdapter.configured` that are no settings. ``transfer`` ("definition", or
#: names of transfers) and ``host`` ("apart", or names of calls) select replacements. ``steps`` compares each
#: transfer and host call with its definition. ``trace`` compares each kernel. ``by_reference`` names kernels
#: to run on the reference back end. ``folder`` is the output folder of a traced run.
INSTRUMENTS = ("transfer", "host", "steps", "trace", "by_reference", "folder")

#: Set to 1, ``x.to("mock")`` and eager operators bypass the device's transfers. It is a variable because it
#: must be set before the script imports torch or the lab.
BY_DEFINITION_VARIABLE = "ACCEL_LAB_MOCK_BY_DEFINITION"


def moves_by_definition() -> bool:
    """Whether eager device tensors are moved by the memory's definition instead of by transfers."""
    return os.environ.get(BY_DEFINITION_VARIABLE) == "1"


class Instruments:
    """The instruments of one process, installed when the first region is compiled."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._installed = False
        self._steps: StepCheck | None = None
        self._trace: KernelTrace | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that the instruments require: a traced run writes artifacts."""
        return {"artifacts": self._options["folder"]} if self._options.get("trace") else {}

    def install(self) -> None:
        """Wraps the runtime, once."""
        if self._installed:
            return
        self._installed = True
        options = self._options
        if options.get("transfer") or options.get("host") or options.get("steps"):
            from .runtime.step_check import StepCheck

            self._steps = StepCheck(
                transfers="all" if options.get("transfer") == "definition" else options.get("transfer") or (),
                calls="all" if options.get("host") == "apart" else options.get("host") or (),
                compare=bool(options.get("steps")),
            )
            self._steps.install()
        if options.get("trace") or options.get("by_reference"):
            from .runtime.kernel_trace import KernelTrace
            from .runtime.transfer import log_transfers

            if options.get("trace"):
                log_transfers(options.get("folder", ""))
            self._trace = KernelTrace(
                compare=bool(options.get("trace")),
                by_reference=options.get("by_reference") or (),
                folder=options.get("folder", ""),
            )
            self._trace.install()

    def observations(self) -> dict[str, Any]:
        """Returns the records: ``kernels`` of a traced run, ``steps`` of a compared one."""
        found: dict[str, Any] = {}
        if self._trace is not None:
            found["kernels"] = self._trace.to_json()
        if self._steps is not None and self._steps.compare:
            found["steps"] = self._steps.to_json()
        return found

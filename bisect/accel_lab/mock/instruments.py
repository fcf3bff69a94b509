"""Instruments of one run of the mock: replaced transfers and host calls, comparisons, traced kernels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .runtime.kernel_trace import KernelTrace
    from .runtime.step_check import StepCheck

#: The options of :meth:`.adapter.MockAdapter.configured` that are none of the settings. ``transfer``
#: ("definition", or the names of transfers) and ``host`` ("apart", or the names of calls) are replaced;
#: ``steps`` holds each transfer and each call against its definition; ``trace`` compares kernel by kernel;
#: ``by_reference`` names kernels that run on the reference back end; ``folder`` is where a traced run writes.
INSTRUMENTS = ("transfer", "host", "steps", "trace", "by_reference", "folder")

#: With 1 in this variable ``x.to("mock")`` and operators called one by one go without the device's transfers.
#: (A variable, because it is set before the script imports torch or anything of the lab.)
BY_DEFINITION_VARIABLE = "ACCEL_LAB_MOCK_BY_DEFINITION"


def moves_by_definition() -> bool:
    """Whether tensors of the device in torch are moved by the memory's definition instead of by transfers."""
    return os.environ.get(BY_DEFINITION_VARIABLE) == "1"


class Instruments:
    """The instruments of one process; they are installed when the first region is compiled."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._installed = False
        self._steps: StepCheck | None = None
        self._trace: KernelTrace | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that go with them: a traced run writes its artifacts."""
        return {"artifacts": self._options["folder"]} if self._options.get("trace") else {}

    def install(self) -> None:
        """Stand around the runtime, once."""
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
        """What was seen: ``kernels`` of a traced run, ``steps`` of a compared one."""
        found: dict[str, Any] = {}
        if self._trace is not None:
            found["kernels"] = self._trace.to_json()
        if self._steps is not None and self._steps.compare:
            found["steps"] = self._steps.to_json()
        return found

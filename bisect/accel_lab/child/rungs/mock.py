"""The rung ``mock``: every compiled region on the mock accelerator, with single parts of it replaced.

The replacements are independent of what they stand for: transfers by the memory's definition of a layout,
host calls made with nothing of the runtime in between (both in ``mock_steps``), kernels by the reference
back end.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ..exceptions import NotApplicable
from ..torch_internals.backends import register_backend
from .accelerated import Accelerated, library
from .builder import RungBuilder
from .mock_steps import Steps

#: Settings of the backend that a switch of the same name sets.
SETTINGS = ("front_end", "back_end", "cores", "scratchpad", "cache", "poison")


class MockRung(Accelerated):
    """The accelerator of one run.

    ``given``: the settings of ``SETTINGS``; ``transfer`` ("definition", or the names of transfers),
    ``host`` ("apart", or the names of calls); ``steps`` (hold each transfer and each call against its
    definition); ``trace`` (compare kernel by kernel, see ``mock.kernel_trace``); ``by_reference`` (names of
    kernels that run on the reference back end).
    """

    def __init__(self, given: Any, folder: str) -> None:
        super().__init__()
        self._given = given
        self._folder = os.path.join(folder, "mock")
        self._trace: Any = None
        self._steps: Any = None
        _register()

    def facts(self) -> Dict[str, Any]:
        """What the parent should know: seeded faults, counters, the kernels of a traced run."""
        if self._backend is None:
            return {}
        from accel_lab.mock import faults
        from accel_lab.mock.runtime.run_statistics import collected

        found: Dict[str, Any] = {
            "faults": sorted(faults.chosen()),
            "statistics": collected().to_json(),
        }
        if self._trace is not None:
            found["kernels"] = self._trace.to_json()
        if self._steps is not None and self._steps.compare:
            found["steps"] = self._steps.to_json()
        return found

    def _prepared(self) -> Any:
        """The backend with its replacements."""
        given = self._given
        try:
            with library():
                from accel_lab.mock import backend
        except (ImportError, SyntaxError) as error:
            raise NotApplicable("the mock accelerator does not run here: %s" % error) from error
        if given.get("transfer") or given.get("host") or given.get("steps"):
            self._steps = Steps(
                transfers="all" if given.get("transfer") == "definition" else given.get("transfer") or (),
                calls="all" if given.get("host") == "apart" else given.get("host") or (),
                compare=bool(given.get("steps")),
            )
            self._steps.install()
        chosen = {name: given[name] for name in SETTINGS if name in given}
        if given.get("trace") or given.get("by_reference"):
            self._trace = self._traced(given)
        if given.get("trace"):
            chosen["artifacts"] = self._folder
        return backend.aot_mock_backend(**chosen)

    def _traced(self, given: Any) -> Any:
        with library():
            from accel_lab.mock.runtime.kernel_trace import KernelTrace

        trace = KernelTrace(
            compare=bool(given.get("trace")),
            by_reference=given.get("by_reference") or (),
            folder=self._folder,
        )
        trace.install()
        return trace


def _register() -> None:
    """Let a script ask for the backend "mock" by name where accel-lab is not installed; the rung runs it."""

    def mock(gm: Any, example_inputs: Any, **_: Any) -> Any:
        raise NotApplicable("the backend mock is run by the rung mock alone")

    register_backend("mock", mock)


class Builder(RungBuilder):
    """The mock accelerator of this run."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        self.ladder.reached.add("mock")
        return self.ladder.mock.compile(gm, example_inputs)

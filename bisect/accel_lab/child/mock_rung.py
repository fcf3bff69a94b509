"""The rung ``mock``: every compiled region on the mock accelerator, with single parts of it replaced.

The replacements are independent of what they stand for: transfers by the memory's definition of a layout,
host calls made with nothing of the runtime in between, kernels by the reference back end.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict

from . import torch_internals
from .checking import _library
from .exceptions import NotApplicable

#: Settings of the backend that a switch of the same name sets.
SETTINGS = ("front_end", "back_end", "cores", "scratchpad", "cache", "poison")


class MockRung:
    """The accelerator of one run.

    ``given``: the settings of ``SETTINGS``; ``transfer`` ("definition"), ``host`` ("apart"); ``trace``
    (compare kernel by kernel, see ``mock.kernel_trace``); ``by_reference`` (names of kernels that run on the
    reference back end).
    """

    def __init__(self, given: Any, folder: str) -> None:
        self._given = given
        self._folder = os.path.join(folder, "mock")
        self._trace: Any = None
        self._backend: Any = None
        _register()

    def compile(self, gm: Any, example_inputs: Any) -> Any:
        """The region on the accelerator."""
        if self._backend is None:
            self._backend = self._prepared()
        with torch_internals.no_caches():
            return self._backend(gm, example_inputs)

    def facts(self) -> Dict[str, Any]:
        """What the parent should know: seeded faults, counters, the kernels of a traced run."""
        if self._backend is None:
            return {}
        from accel_lab.mock import faults
        from accel_lab.mock.run_statistics import collected

        found: Dict[str, Any] = {
            "faults": sorted(faults.chosen()),
            "statistics": collected().to_json(),
        }
        if self._trace is not None:
            found["kernels"] = self._trace.to_json()
        return found

    def _prepared(self) -> Any:
        """The backend with its replacements; only when a region is compiled is all of torch there."""
        given = self._given
        try:
            with _library():
                from accel_lab.mock import backend
        except (ImportError, SyntaxError) as error:
            raise NotApplicable("the mock accelerator does not run here: %s" % error) from error
        if given.get("transfer") == "definition":
            _transfer_by_definition()
        if given.get("host") == "apart":
            _host_calls_apart()
        chosen = {name: given[name] for name in SETTINGS if name in given}
        if given.get("trace") or given.get("by_reference"):
            self._trace = self._traced(given)
        if given.get("trace"):
            chosen["artifacts"] = self._folder
        return backend.aot_mock_backend(**chosen)

    def _traced(self, given: Any) -> Any:
        with _library():
            from accel_lab.mock.kernel_trace import KernelTrace

        trace = KernelTrace(
            compare=bool(given.get("trace")),
            by_reference=given.get("by_reference") or (),
            folder=self._folder,
        )
        trace.install()
        return trace


def _register() -> None:
    """Let a script ask for the backend "mock" by name where accel-lab is not installed; the rung runs it."""
    from torch._dynamo.backends import registry

    def mock(gm: Any, example_inputs: Any, **_: Any) -> Any:
        raise NotApplicable("the backend mock is run by the rung mock alone")

    # Asking for the list of backends would import them all, and in a cold run torch is half imported here.
    with contextlib.suppress(AssertionError):
        registry.register_backend(compiler_fn=mock, name="mock")


def _transfer_by_definition() -> None:
    """Every tensor is moved as the memory defines it, none on the transfer's own fast path."""
    import torch

    from accel_lab.mock import runtime

    def to_device(memory: Any, tensor: Any, layout: Any, address: int, padding: str = "undefined") -> None:
        with torch.inference_mode(False), torch.no_grad():
            memory.write(layout, address, tensor.detach(), padding)

    def to_host(memory: Any, layout: Any, address: int) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            return memory.read(layout, address)

    runtime.to_device = to_device  # type: ignore[attr-defined]
    runtime.to_host = to_host  # type: ignore[attr-defined]


def _host_calls_apart() -> None:
    """Operators on the host are called with their arguments alone, and give what they give."""
    from torch.utils._pytree import tree_map

    from accel_lab.mock import runtime
    from accel_lab.mock.program import Ref

    def run_host_call(step: Any, resolve: Any, front_end: str) -> Any:
        def value(leaf: Any) -> Any:
            return resolve(leaf) if isinstance(leaf, Ref) else leaf

        args, kwargs = tree_map(value, (step.args, step.kwargs), is_leaf=lambda leaf: isinstance(leaf, Ref))
        result = step.target(*args, **kwargs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    runtime.run_host_call = run_host_call  # type: ignore[attr-defined]

"""The rung ``mock``: runs every compiled region on the mock accelerator, with parts of it replaced on demand.

The mock is an adapter like any other; its options are the value of the switch ``mock``. In addition, the
backend name "mock" is registered, so that a script may use it where accel-lab is not installed.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ..exceptions import NotApplicable
from ..torch_internals.backends import register_backend
from .adapter import AdapterRung
from .builder import RungBuilder

#: The facts of a run on the mock that the search reads.
FACTS = ("faults", "statistics", "kernels", "steps", "environment")


class MockRung(AdapterRung):
    """The mock accelerator of one run; ``given`` has options of ``MockAdapter.configured``, and ``files``."""

    def __init__(self, given: Any, folder: str) -> None:
        options = dict(given, folder=os.path.join(folder, "mock"))
        files = options.pop("files", False)
        super().__init__({"name": "mock", "options": options, "files": files}, folder)
        _register()

    def facts(self) -> Dict[str, Any]:
        """Returns seeded faults, counters, environment, kernels of a traced run, steps of a compared run."""
        found = super().facts()
        return {name: found[name] for name in FACTS if name in found}


def _register() -> None:
    """Registers the backend name "mock" for scripts that use it; only the rung ``mock`` can run it."""

    def mock(gm: Any, example_inputs: Any, **_: Any) -> Any:
        raise NotApplicable("the backend mock is run by the rung mock alone")

    register_backend("mock", mock)


class Builder(RungBuilder):
    """Compiles regions for the mock accelerator of this run."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        self.ladder.reached.add("mock")
        return self.ladder.mock.compile(gm, example_inputs)

"""The rung ``mock``: every compiled region on the mock accelerator, with single parts of it replaced.

It is the rung of an adapter like any other, whose options are the switch ``mock``; besides, a script may ask
for the backend "mock" by its name where accel-lab is not installed.
"""

from __future__ import annotations

import os
from typing import Any, Dict

from ..exceptions import NotApplicable
from ..torch_internals.backends import register_backend
from .adapter import AdapterRung
from .builder import RungBuilder

#: What the search reads of a run on the mock.
FACTS = ("faults", "statistics", "kernels", "steps", "environment")


class MockRung(AdapterRung):
    """The mock in one run. ``given``: options of ``MockAdapter.configured``, and ``files``."""

    def __init__(self, given: Any, folder: str) -> None:
        options = dict(given, folder=os.path.join(folder, "mock"))
        files = options.pop("files", False)
        super().__init__({"name": "mock", "options": options, "files": files}, folder)
        _register()

    def facts(self) -> Dict[str, Any]:
        """Seeded faults, counters, the kernels of a traced run, the steps of a compared one."""
        found = super().facts()
        return {name: found[name] for name in FACTS if name in found}


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

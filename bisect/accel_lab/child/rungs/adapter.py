"""The rung ``accelerator``: every compiled region on the accelerator of an adapter, by one of its ways."""

from __future__ import annotations

import os
from typing import Any, Dict

from ..exceptions import NotApplicable
from .accelerated import Accelerated, library
from .builder import RungBuilder
from .regions import boxed


class AdapterRung(Accelerated):
    """One accelerator in one run.

    ``given``: ``name`` of the adapter, and ``way``: the name of one of its rungs, "graphs" for its graphs
    run by torch on the host, or nothing for the way that it usually takes.
    """

    def __init__(self, given: Any, folder: str) -> None:
        super().__init__()
        self._name = given["name"]
        self._way = given.get("way") or ""
        self._adapter: Any = None

    def facts(self) -> Dict[str, Any]:
        """The adapter's further ways with what each blames, what its usual one adds, breaches, variables."""
        if self._adapter is None:
            return {}
        broken: Dict[str, int] = {}
        for violation in self._adapter._statistics.violations:
            name = str(violation.get("constraint"))
            broken[name] = broken.get(name, 0) + 1
        ways = [[str(rung.name), str(rung.blames)] for rung in self._adapter.rungs()]
        told = {"name": self._name, "ways": ways, "violations": broken, "last": str(self._adapter.blames)}
        names = [str(name) for name in self._adapter.environment()]
        return {**told, "variables": {name: os.environ[name] for name in names if name in os.environ}}

    def _prepared(self) -> Any:
        try:
            with library():
                from accel_lab.mock import adapters
                from accel_lab.mock.discovery import AdapterError

                adapter = self._adapter = adapters.load_adapter(self._name)
        except (ImportError, SyntaxError) as error:
            raise NotApplicable("adapters cannot be had here: %s" % error) from error
        except AdapterError as error:
            raise NotApplicable(str(error)) from error
        if not self._way:
            return adapter.backend
        if self._way == "graphs":
            way = adapters.AdapterRung(name=self._way, blames="", compile=lambda graph, _: boxed(graph))
            return adapter.backend_at(way)
        for way in adapter.rungs():
            if way.name == self._way:
                return adapter.backend_at(way)
        raise NotApplicable("the adapter %s has no way called %s" % (self._name, self._way))


class Builder(RungBuilder):
    """The accelerator of this run."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        self.ladder.reached.add("accelerator")
        return self.ladder.adapter.compile(gm, example_inputs)

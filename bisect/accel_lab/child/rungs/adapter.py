"""The rung ``accelerator``: runs every compiled region on an adapter's accelerator, by one of its rungs."""

from __future__ import annotations

import os
from typing import Any, Dict

from ..accelerator_library import library, show_library
from ..exceptions import NotApplicable
from ..torch_internals.caches import no_caches
from .builder import RungBuilder
from .regions import boxed

#: The way that does not use the accelerator: torch runs its graphs, with its decompositions, on the host.
GRAPHS = "graphs"


class AdapterRung:
    """The accelerator of one run; its backend is created when the first region is compiled.

    ``given`` has the keys ``name`` (of the adapter), ``way`` (the name of one of its rungs, "graphs" for its
    graphs run by torch on the host, or empty for its usual backend), ``part`` (the name of a part to
    replace), ``options`` for ``AcceleratorAdapter.configured``, and ``files`` (whether
    ``AcceleratorAdapter.keep_files`` writes explanatory files below the probe's artifacts).
    """

    def __init__(self, given: Any, folder: str) -> None:
        self._name = given["name"]
        self._way = given.get("way") or ""
        self._part = given.get("part") or ""
        self._options = dict(given.get("options") or {})
        self._files = os.path.join(folder, "artifacts", "accelerator") if given.get("files") else ""
        self._backend: Any = None
        self._adapter: Any = None
        self._entry: Any = None
        show_library()

    def compile(self, gm: Any, example_inputs: Any) -> Any:
        """Compiles a region for the accelerator; raises ``NotApplicable`` if the adapter cannot run here."""
        if self._backend is None:
            self._backend = self._prepared()
        with no_caches():
            return self._backend(gm, example_inputs)

    def facts(self) -> Dict[str, Any]:
        """Returns the facts of this run: rungs, parts, seeded faults, violations, environment, observations.

        Empty if no region was compiled.
        """
        adapter = self._adapter
        if adapter is None:
            return {}
        from accel_lab.accelerators.provenance import environment_of

        broken: Dict[str, int] = {}
        for violation in adapter.counters.violations:
            name = str(violation.get("constraint"))
            broken[name] = broken.get(name, 0) + 1
        return {
            "name": self._name,
            "ways": [[str(rung.name), str(rung.blames)] for rung in adapter.rungs()],
            "parts": [str(part.name) for part in adapter.parts()],
            "violations": broken,
            "last": str(adapter.blames),
            "faults": [str(fault) for fault in adapter.faults()],
            "environment": environment_of(adapter, self._entry).to_json(),
            **adapter.observations(),
        }

    def _prepared(self) -> Any:
        """Loads the adapter and returns its backend; called at the first region, after torch is imported."""
        try:
            with library():
                from accel_lab.accelerators import discovery, loading
                from accel_lab.accelerators.adapter import AdapterRung as Rung
                from accel_lab.accelerators.settings import SettingError

                adapter = loading.load_adapter(self._name)
                self._entry = discovery.adapters().get(self._name)
                options = dict(self._part_options(adapter), **self._options)
                if options:
                    adapter = adapter.configured(options)
                if self._files:
                    adapter.keep_files(self._files)
        except (ImportError, SyntaxError) as error:
            raise NotApplicable("the accelerator %s does not run here: %s" % (self._name, error)) from error
        except (discovery.AdapterError, SettingError) as error:
            raise NotApplicable(str(error)) from error
        self._adapter = adapter
        if not self._way:
            return adapter.backend
        if self._way == GRAPHS:
            return adapter.backend_at(Rung(name=self._way, blames="", compile=lambda graph, _: boxed(graph)))
        for way in adapter.rungs():
            if way.name == self._way:
                return adapter.backend_at(way)
        raise NotApplicable("adapter %s has no rung %s" % (self._name, self._way))

    def _part_options(self, adapter: Any) -> Dict[str, Any]:
        if not self._part:
            return {}
        for part in adapter.parts():
            if part.name == self._part:
                return dict(part.options)
        raise NotApplicable("the adapter %s has no part called %s" % (self._name, self._part))


class Builder(RungBuilder):
    """Compiles regions for the accelerator of this run."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        self.ladder.reached.add("accelerator")
        return self.ladder.adapter.compile(gm, example_inputs)

"""Holds a script's regions to the constraints of an accelerator while they run eagerly: `accel-lab check`.

What is found is written after every graph, so that it is there however the script ends.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

from ..torch_internals.aot import aot_autograd
from .accelerated import library
from .regions import boxed


class Checker:
    """The constraints, the graphs seen so far, and what they violate."""

    def __init__(self, given: Any, folder: str) -> None:
        """``given``: ``table``, ``settings``, ``choice`` (see accel_lab.mock), ``adapter``, ``repros``."""
        self._folder = folder
        self._repros = bool(given.get("repros"))
        self._scripts: Dict[str, str] = {}
        self._violations: List[Any] = []
        self._graphs = 0
        self._not_lowered: List[str] = []
        self._is_mock = not given.get("adapter")
        with library():
            from accel_lab.mock import adapters, settings
            from accel_lab.mock.constraints import choice

        table = dict(given.get("table") or {})
        own = {key: table.pop(key) for key in choice.VARIABLES if key in table}
        made = settings.read_settings(table, given=dict(given.get("settings") or {}, strict=False))
        if given.get("adapter"):
            adapter = adapters.load_adapter(given["adapter"])
            self._table = adapter.decompositions()
            self._settings = adapter.capabilities.settings(False)
            self._choice = choice.Choice(constraints=tuple(adapter.constraints()), environment=None)
        else:
            from accel_lab.mock.frontend import decompositions

            self._table = decompositions.table()
            self._settings = made
            self._choice = choice.choose(made, given=given.get("choice"), table=own)
        self._write()

    def compile(self, gm: Any, example_inputs: Any, _: Any) -> Any:
        """The region as AOTAutograd's graphs, each checked and then run as it is."""
        from accel_lab.mock.constraints.watch import Watch

        watch = Watch(
            self._choice,
            self._settings,
            gm,
            example_inputs,
            "graph%d" % self._graphs,
            self._violations.append,
        )
        self._graphs += 1
        watch.dynamo()
        self._note(watch)

        def phase(direction: str) -> Any:
            def compiler(graph: Any, inputs: Any) -> Any:
                watch.aten(graph, direction)
                if self._is_mock:
                    self._lower(watch, graph, inputs, direction)
                self._note(watch)
                return boxed(graph)

            return compiler

        keywords: Dict[str, Any] = {}
        if self._table is not None:
            keywords["decompositions"] = dict(self._table)
        return aot_autograd(
            gm,
            example_inputs,
            fw_compiler=phase("forward"),
            bw_compiler=phase("backward"),
            inference_compiler=phase("inference"),
            **keywords,
        )

    def _lower(self, watch: Any, graph: Any, inputs: Any, direction: str) -> None:
        """See what the mock's front end refuses; a graph that it cannot take at all is said to be so."""
        try:
            watch.lowering(graph, inputs, direction)
        except Exception as error:
            line = "%s_%s: not lowered: %s: %s" % (watch.name, direction, type(error).__name__, error)
            self._not_lowered.append(line[:500])

    def _note(self, watch: Any) -> None:
        """Write a script for the first violation of each constraint, and all violations."""
        for violation in watch.violations.values():
            if not self._repros or violation.severity != "error":
                continue  # a warning stops nothing, so no script could show it
            if violation.constraint not in self._scripts:
                folder = os.path.join(self._folder, "repros")
                self._scripts[violation.constraint] = watch.repro(violation, folder)
        self._write()

    def _write(self) -> None:
        path = os.path.join(self._folder, "check.json")
        with open(path + ".part", "w", encoding="utf-8") as stream:
            json.dump(
                {
                    "constraints": [constraint.name for constraint in self._choice.constraints],
                    "graphs": self._graphs,
                    "not_lowered": self._not_lowered,
                    "violations": [violation.to_json() for violation in self._violations],
                    "repros": self._scripts,
                },
                stream,
                default=str,
            )
        os.replace(path + ".part", path)

"""Checks a script's regions against an accelerator's constraints while they run eagerly (`accel-lab check`).

Results are written after every graph, so that they exist however the script ends.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ..accelerator_library import library
from ..artifacts import write_json
from ..torch_internals.aot import aot_autograd
from .regions import boxed


class Checker:
    """Checks each compiled region against the adapter's constraints and writes ``check.json``."""

    def __init__(self, given: Any, folder: str) -> None:
        """Loads the adapter.

        ``given``: the value of the switch ``check``, with ``adapter`` (empty: the mock), ``options`` for the
        adapter's ``configured`` and ``repros`` (whether to write a script for each violated constraint).
        """
        self._folder = folder
        self._repros = bool(given.get("repros"))
        self._scripts: Dict[str, str] = {}
        self._reduced: Dict[str, Any] = {}
        self._violations: List[Any] = []
        self._graphs = 0
        self._not_lowered: List[str] = []
        with library():
            from accel_lab.accelerators.loading import load_adapter

            self._adapter = load_adapter(given.get("adapter") or "mock")
            if given.get("options"):
                self._adapter = self._adapter.configured(given["options"])
            self._constraints = tuple(self._adapter.constraints())
            self._table = self._adapter.decompositions()
        self._write()

    def compile(self, gm: Any, example_inputs: Any, _: Any) -> Any:
        """Compiles a region with AOTAutograd; each graph is checked and then run eagerly."""
        from accel_lab.accelerators.constraints.watch import Watch

        watch = Watch(
            self._constraints,
            gm,
            example_inputs,
            "graph%d" % self._graphs,
            on_violation=self._violations.append,
            target=self._adapter.repro_target(),
        )
        self._graphs += 1
        watch.dynamo()
        self._note(watch)

        def phase(direction: str) -> Any:
            def compiler(graph: Any, inputs: Any) -> Any:
                watch.aten(graph, direction)
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
        """Asks the adapter which operators its compiler refuses; a graph that it cannot lower is noted."""
        try:
            watch.lowering(graph, direction, self._adapter.refusals(graph, inputs))
        except Exception as error:
            line = "%s_%s: not lowered: %s: %s" % (watch.name, direction, type(error).__name__, error)
            self._not_lowered.append(line[:500])

    def _note(self, watch: Any) -> None:
        """Writes ``check.json`` and, if repros are wanted, one for the first error of each constraint."""
        for violation in watch.violations.values():
            if not self._repros or violation.severity != "error":
                continue  # a warning does not fail a run, so a repro could not show it
            if violation.constraint not in self._scripts:
                folder = os.path.join(self._folder, "repros")
                self._scripts[violation.constraint] = watch.repro(violation, folder)
                part = watch.reduced_repro(violation, os.path.join(folder, "reduced"))
                if part is not None:
                    said, operators, of = part
                    row = {"said": said, "operators": operators, "of": of}
                    self._reduced[violation.constraint] = row
        self._write()

    def _write(self) -> None:
        data = {
            "constraints": [constraint.name for constraint in self._constraints],
            "graphs": self._graphs,
            "not_lowered": self._not_lowered,
            "violations": [violation.to_json() for violation in self._violations],
            "repros": self._scripts,
            "reduced": self._reduced,
        }
        write_json(os.path.join(self._folder, "check.json"), data, default=str)

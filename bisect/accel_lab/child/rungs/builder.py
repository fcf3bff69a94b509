"""The base class of the rungs' builders; it turns a rung's part of the compiler into a backend for Dynamo."""

from __future__ import annotations

import importlib
from typing import Any

from ..protocol import rungs
from .graph_inputs import promises
from .regions import RungBackend


class RungBuilder:
    """Compiles captured graphs on one rung; the rung's record names the subclass's module.

    The switch ``hold`` can keep a region on another rung, so one run may use several builders.
    """

    def __init__(self, ladder: Any, rung: str) -> None:
        self.ladder = ladder
        self.rung = rung

    def prepare(self) -> None:
        """Installs hooks into the compiler; called once, and only for the run's own rung."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        """Compiles a captured graph to a callable; ``patches`` are Inductor settings."""
        raise NotImplementedError

    def backend(self, region: Any, requested: Any, options: Any) -> Any:
        """Returns the backend that Dynamo calls for a region; ``options`` are the script's own."""
        ladder = self.ladder
        patches = dict(options or {})
        patches.update(ladder.switches.get("inductor") or {})
        compiler = self.compile if ladder.checker is None else ladder.checker.compile
        if ladder.front is not None:
            compiler = ladder.front.around(compiler)

        def build(gm: Any, example_inputs: Any) -> Any:
            ladder.save_graph("dynamo_graph", gm)
            capturing, promised = ladder.capturing(gm, region), promises(gm)
            region["graphs"] = region.get("graphs", 0) + 1
            try:
                if ladder.python_kernels is not None:
                    ladder.python_kernels.install()
                with ladder.applications.at(region=region["id"], graph=region["graphs"] - 1):
                    compiled = compiler(gm, example_inputs, patches)
                return capturing(ladder.graph_inputs.around(promised, compiled))
            except Exception as error:
                ladder.note_not_applicable(error)
                raise

        name = "inductor" if region["backend"] == "inductor" else "accel_lab_" + self.rung
        return RungBackend(requested, self.rung, name, build)


def builder_of(ladder: Any, rung: str) -> RungBuilder:
    """Creates the builder of a rung; the rung must be one that compiles something."""
    module = importlib.import_module("." + rungs.Rung(rung).record.builder, __package__)
    made: RungBuilder = module.Builder(ladder, rung)
    return made

"""What the builders of the rungs share: how a rung's part of the compiler becomes a backend of Dynamo."""

from __future__ import annotations

import importlib
from typing import Any

from ..protocol import rungs
from .graph_inputs import promises
from .regions import RungBackend


class RungBuilder:
    """Compiles captured graphs on one rung; its module is the one that the rung's record names.

    A region can be kept on another rung than the run's own, so several builders may be at work in one run.
    """

    def __init__(self, ladder: Any, rung: str) -> None:
        self.ladder = ladder
        self.rung = rung

    def prepare(self) -> None:
        """Hook into the compiler, once, where this is the run's own rung."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        """A captured graph as a callable; ``patches`` are settings of Inductor."""
        raise NotImplementedError

    def backend(self, region: Any, requested: Any, options: Any) -> Any:
        """The backend that Dynamo calls for a region; ``options`` are those that the script gave."""
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
    """The builder of a rung that compiles something."""
    module = importlib.import_module("." + rungs.Rung(rung).record.builder, __package__)
    made: RungBuilder = module.Builder(ladder, rung)
    return made

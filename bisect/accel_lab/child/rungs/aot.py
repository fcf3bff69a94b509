"""The rung ``aot``: AOTAutograd with the default partitioner and no decompositions; graphs run eagerly."""

from __future__ import annotations

import functools
from typing import Any

from ..torch_internals import aot
from .builder import RungBuilder
from .regions import boxed, interpreted


class Builder(RungBuilder):
    """AOTAutograd; subclasses change the partitioner, add decompositions, or check the graphs."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        return self.traced(gm, example_inputs)

    def traced(self, gm: Any, example_inputs: Any, **more: Any) -> Any:
        """Compiles a graph with AOTAutograd; ``more`` are further keywords of AOTAutograd."""
        return aot.aot_autograd(
            gm,
            example_inputs,
            fw_compiler=functools.partial(self._graph, "aot_forward"),
            bw_compiler=functools.partial(self._graph, "aot_backward"),
            partition_fn=self.partitioner(),
            keep_inference_input_mutations=True,
            **more,
        )

    def partitioner(self) -> Any:
        """Returns the function that splits the joint graph into forward and backward."""
        return aot.default_partition()

    def run(self, gm: Any) -> Any:
        """Returns a boxed callable for a graph of AOTAutograd."""
        return interpreted(gm, contiguous=True) if self.ladder.switches.get("contiguous") else boxed(gm)

    def _graph(self, kind: str, gm: Any, example_inputs: Any) -> Any:
        self.ladder.reached.add("aot")
        self.ladder.save_graph(kind, gm)
        return self.run(gm)

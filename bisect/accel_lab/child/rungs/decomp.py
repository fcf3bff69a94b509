"""The rung ``decomp``: AOTAutograd with the min-cut partitioner and Inductor's decomposition table."""

from __future__ import annotations

from typing import Any

from ..hooks.decompositions import install_decompositions
from ..torch_internals import settings
from ..torch_internals.aot import decomposition_table
from . import partition


class Builder(partition.Builder):
    """The rung ``partition`` with decompositions; the table is made under the script's Inductor settings."""

    def prepare(self) -> None:
        install_decompositions(self.ladder.applications)

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        with settings.under("inductor", patches):
            return self.traced(gm, example_inputs, decompositions=decomposition_table())

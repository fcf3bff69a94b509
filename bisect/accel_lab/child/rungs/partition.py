"""The rung ``partition``: AOTAutograd with the min-cut partitioner."""

from __future__ import annotations

from typing import Any

from ..torch_internals.aot import min_cut_partition
from . import aot


class Builder(aot.Builder):
    """The rung ``aot`` with Inductor's partitioner."""

    def partitioner(self) -> Any:
        return min_cut_partition()

"""The rung ``dynamo``: runs the captured graph eagerly."""

from __future__ import annotations

from typing import Any

from ..torch_internals.backends import lookup_backend
from .builder import RungBuilder


class Builder(RungBuilder):
    """Returns each captured graph uncompiled."""

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        compiled = lookup_backend("eager")(gm, example_inputs)
        kernels = self.ladder.python_kernels
        return compiled if kernels is None else kernels.around(compiled)

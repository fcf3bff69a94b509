"""The rung ``scheduled``: Inductor's loops as its scheduler ordered and fused them, run by an interpreter."""

from __future__ import annotations

from . import loops
from .kernel import open_kernels


class Builder(loops.Builder):
    """The rung ``loops`` with the real scheduler, whose choices are noted and can be switched off."""

    scheduled = True

    def prepare(self) -> None:
        open_kernels(self.ladder)

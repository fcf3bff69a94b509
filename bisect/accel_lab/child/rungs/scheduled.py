"""The rung ``scheduled``: interprets Inductor's loop IR after scheduling and fusion."""

from __future__ import annotations

from . import loops
from .kernel import open_kernels


class Builder(loops.Builder):
    """The rung ``loops`` with Inductor's scheduler; its fusions and buffer reuses can be switched off."""

    scheduled = True

    def prepare(self) -> None:
        open_kernels(self.ladder)

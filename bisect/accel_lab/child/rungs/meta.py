"""The rung ``meta``: AOTAutograd's graphs, each operator's result checked against its meta kernel."""

from __future__ import annotations

from typing import Any

from . import aot
from .meta_check import checking_interpreter


class Builder(aot.Builder):
    """The rung ``aot`` under the check."""

    def run(self, gm: Any) -> Any:
        return checking_interpreter(gm, self.ladder.meta_log)

"""The rung ``meta``: runs AOTAutograd's graphs and checks each operator against its meta kernel."""

from __future__ import annotations

from typing import Any

from . import aot
from .meta_check import checking_interpreter


class Builder(aot.Builder):
    """The rung ``aot`` with every graph interpreted under the check."""

    def run(self, gm: Any) -> Any:
        return checking_interpreter(gm, self.ladder.meta_log)

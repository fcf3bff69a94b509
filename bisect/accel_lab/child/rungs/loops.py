"""The rung ``loops``: Inductor's loop IR as lowering made it, run by an interpreter."""

from __future__ import annotations

from typing import Any

from .builder import RungBuilder


class Builder(RungBuilder):
    """Inductor with its scheduler replaced by one that schedules nothing."""

    scheduled = False

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        from ..loops.interpreter import compile_loops

        self.ladder.reached.add("loops")
        return compile_loops(
            gm,
            example_inputs,
            scheduled=self.scheduled,
            together=bool(self.ladder.switches.get("together")),
            on_graph=self.ladder.save_text,
            config_patches=patches,
        )

"""The rung ``loops``: interprets Inductor's loop IR after lowering, before scheduling."""

from __future__ import annotations

from typing import Any

from .builder import RungBuilder


class Builder(RungBuilder):
    """Inductor's lowering, with its loop IR interpreted unscheduled."""

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

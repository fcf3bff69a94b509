"""The rung ``fx``: runs Inductor up to its last FX graph and interprets that graph."""

from __future__ import annotations

from typing import Any

from ..exceptions import NotApplicable
from ..hooks.passes import Passes
from ..hooks.patterns import Patterns
from ..torch_internals import inductor
from .builder import RungBuilder
from .regions import interpreted


class Builder(RungBuilder):
    """Inductor, stopped before lowering."""

    def prepare(self) -> None:
        Passes(self.ladder.applications).install()
        Patterns(self.ladder.applications).install()

    def compile(self, gm: Any, example_inputs: Any, patches: Any) -> Any:
        ladder = self.ladder
        place = ladder.applications.place()

        def inner(gm_: Any, inputs_: Any, **kwargs: Any) -> Any:
            direction = "backward" if kwargs.get("is_backward") else "forward"
            with ladder.applications.at(**place, direction=direction), inductor.stop_before_lowering():
                last = None if inductor.has_calls(gm_) else gm_
                try:
                    inductor.compile_inner(gm_, inputs_, **kwargs)
                except inductor.LoweringReached as reached:
                    last = reached.gm
            if last is None:
                raise NotApplicable("Inductor did not reach its lowering: the fx rung is inconclusive")
            ladder.reached.add("fx")
            ladder.save_graph("post_grad", last)
            return interpreted(last, contiguous=bool(ladder.switches.get("contiguous")))

        return inductor.compile_with(inner, gm, example_inputs, patches=patches)

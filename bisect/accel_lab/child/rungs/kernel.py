"""The rung ``kernel``: runs the script's own backend, normally Inductor with generated kernels."""

from __future__ import annotations

from typing import Any

from ..exceptions import NotApplicable
from ..hooks.scheduler import install_choices
from ..torch_internals import compilers, loop_ir, settings
from ..torch_internals.backends import inductor_with, lookup_backend
from ..torch_internals.caches import no_caches
from .builder import RungBuilder
from .graph_inputs import promises
from .regions import Backend


class Builder(RungBuilder):
    """The script's own backend; if that is Inductor, with the run's switches."""

    _waits = False  # hooks are installed later, because Inductor is still being imported

    def prepare(self) -> None:
        self._waits = loop_ir.being_imported()
        if not self._waits:
            open_kernels(self.ladder)

    def backend(self, region: Any, requested: Any, options: Any) -> Any:
        if self._waits:
            self._waits = False
            open_kernels(self.ladder)
        switches = self.ladder.switches
        if region["backend"] != "inductor" and self.ladder.layers is not None:
            return GraphNoted(requested, self.ladder)
        if switches.get("bisector") or region["backend"] != "inductor":
            return requested
        patches = dict(switches.get("inductor") or {})
        settings.require("inductor", patches)
        return KernelBackend(requested, inductor_with(requested, patches), self.ladder, region)


def open_kernels(ladder: Any) -> None:
    """Installs the hooks on the scheduler and, as the switches say, on generated kernels.

    Raises ``NotApplicable`` if this torch lacks a place that a switch needs.
    """
    switches = ladder.switches
    install_choices(ladder.subsystems)
    if switches.get("before_compiler") and not compilers.stop_before_compiler(ladder.on_compiler):
        raise NotApplicable("this torch cannot be stopped before the native compiler")
    if switches.get("annotate"):
        from ..hooks.kernel_lines import Annotator

        ladder.annotator = Annotator(ladder.subsystems)
        if not ladder.annotator.install():
            raise NotApplicable("this torch cannot map kernel lines to nodes")
    if switches.get("divergence"):
        from ..capture.divergence import Divergence

        ladder.divergence = Divergence(switches["divergence"])
        if not ladder.divergence.install():
            raise NotApplicable("this torch gives no access to buffers between kernels")


class GraphNoted(Backend):
    """The script's own backend; each graph that Dynamo gives it is saved first."""

    def __init__(self, requested: Any, ladder: Any) -> None:
        super().__init__(requested, "kernel")
        self._inner = lookup_backend(requested) if isinstance(requested, str) else requested
        self._ladder = ladder

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        self._ladder.save_graph("dynamo_graph", gm)
        return self._inner(gm, example_inputs, **kwargs)


class KernelBackend(Backend):
    """Inductor as the script requested it, with the switches that are not Inductor settings."""

    compiler_name = "inductor"

    def __init__(self, requested: Any, inner: Any, ladder: Any, region: Any) -> None:
        super().__init__(requested, "kernel")
        self._inner = inner
        self._ladder = ladder
        self._region = region

    def __call__(self, gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        ladder = self._ladder
        ladder.save_graph("dynamo_graph", gm)
        capturing = ladder.capturing(gm, self._region)
        # Inductor's result is wrapped only to correct inputs; the rungs above check the same inputs.
        promised = promises(gm) if ladder.switches.get("correct_inputs") else []
        if ladder.python_kernels is not None:
            ladder.python_kernels.install()
        with no_caches(but=ladder.switches.get("caches") or ()):
            compiled = self._inner(gm, example_inputs, **kwargs)
        if ladder.annotator is not None and ladder.artifacts is not None:
            ladder.annotator.write(ladder.artifacts.home)  # written now, as a kernel can end the process
        return capturing(ladder.graph_inputs.around(promised, compiled))

    def get_compiler_config(self) -> Any:
        getter = getattr(self._inner, "get_compiler_config", None)
        return getter() if getter else {}

    def reset(self) -> None:
        reset = getattr(self._inner, "reset", None)
        if reset is not None:
            reset()

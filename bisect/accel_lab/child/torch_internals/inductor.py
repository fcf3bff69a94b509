"""Inductor from a captured graph to its loop IR: entered, stopped half way, and kept in this process."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator, Mapping
from unittest import mock

from . import settings
from .caches import no_caches

_LOWERING_LOCK = threading.RLock()


class LoweringReached(BaseException):
    """Carries the final FX graph out of Inductor.

    A BaseException, so that torch's own ``except Exception`` handlers let it pass.
    """

    def __init__(self, gm: Any) -> None:
        super().__init__("the final FX graph")
        self.gm = gm


def compile_fx(gm: Any, example_inputs: Any, *, patches: Mapping[str, Any]) -> Any:
    """A captured graph compiled by Inductor (``torch/_inductor/compile_fx.py``).

    The settings hold for the lazily compiled backward graph too.
    """
    from torch._inductor.compile_fx import compile_fx as compiler

    with no_caches():
        return compiler(gm, example_inputs, config_patches=dict(patches))


def compile_with(inner: Any, gm: Any, example_inputs: Any, *, patches: Mapping[str, Any]) -> Any:
    """The same with ``inner`` in the place of what compiles the graphs after AOTAutograd.

    No C++ wrapper: it would be written around kernels that are not there.
    """
    from torch._inductor.compile_fx import compile_fx as compiler

    with no_caches():
        return compiler(
            gm, example_inputs, inner_compile=inner, config_patches=dict(patches, cpp_wrapper=False)
        )


def compile_inner(gm: Any, example_inputs: Any, **keywords: Any) -> Any:
    """What Inductor itself does with a graph after AOTAutograd."""
    from torch._inductor import compile_fx

    return compile_fx.compile_fx_inner(gm, example_inputs, **keywords)


@contextlib.contextmanager
def stop_before_lowering() -> Iterator[Any]:
    """While active, Inductor's lowering hands out its graph (:class:`LoweringReached`) and does no more."""
    from torch._inductor.graph import GraphLowering

    def run(self: Any, *args: Any) -> None:
        raise LoweringReached(getattr(self, "orig_gm", None) or self.module)

    with _LOWERING_LOCK:
        original = GraphLowering.run
        GraphLowering.run = run
        try:
            yield
        finally:
            GraphLowering.run = original


def has_calls(gm: Any) -> bool:
    """Whether a graph calls anything; one that does not Inductor hands back as it is, lowering nothing."""
    from torch._dynamo.utils import count_calls

    return bool(count_calls(gm.graph))


@contextlib.contextmanager
def for_interpreted_kernels(scheduled: bool) -> Iterator[None]:
    """In this process, with a plain Python wrapper and no plan of memory that only generated code keeps."""
    names = ("graph_partition", "memory_planning", "triton__cudagraphs", "cpp_wrapper")
    off = dict.fromkeys(names if scheduled else (*names, "allow_buffer_reuse"), False)
    with no_caches(), settings.patched(settings.of("inductor"), **off), _in_process():
        yield


@contextlib.contextmanager
def _in_process() -> Iterator[None]:
    """Inductor can compile in another process or later; a patched scheduler works in this process only."""
    from torch._inductor import compile_fx

    with contextlib.ExitStack() as stack:
        normal = getattr(getattr(compile_fx, "FxCompileMode", None), "NORMAL", None)
        if normal is not None and hasattr(compile_fx, "fx_compile_mode"):
            stack.enter_context(mock.patch.object(compile_fx, "fx_compile_mode", normal))
        for name in ("fx_compile_async", "fx_compile_progressive"):
            if hasattr(compile_fx, name):
                stack.enter_context(mock.patch.object(compile_fx, name, False))
        yield


def without_buffer_reuse() -> Any:
    """A context in which no buffer gets the memory of another one."""
    return settings.under("inductor", {"allow_buffer_reuse": False})


def lowering_class() -> Any:
    """``GraphLowering`` of ``torch/_inductor/graph.py``; None where this torch has not the place."""
    try:
        from torch._inductor.graph import GraphLowering
    except ImportError:
        return None
    return GraphLowering if hasattr(GraphLowering, "compile_to_module") else None

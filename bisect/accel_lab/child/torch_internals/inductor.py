"""Calls Inductor, stops it before lowering, and sets it up for interpreted loop IR."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Iterator, Mapping
from unittest import mock

from . import settings
from .caches import no_caches

_LOWERING_LOCK = threading.RLock()


class LoweringReached(BaseException):
    """Raised before lowering; ``gm`` is Inductor's final FX graph.

    A BaseException, so that torch's ``except Exception`` handlers do not catch it.
    """

    def __init__(self, gm: Any) -> None:
        super().__init__("the final FX graph")
        self.gm = gm


def compile_fx(gm: Any, example_inputs: Any, *, patches: Mapping[str, Any]) -> Any:
    """Compiles a captured graph with Inductor (``torch/_inductor/compile_fx.py``).

    The settings ``patches`` also apply to the lazily compiled backward graph.
    """
    from torch._inductor.compile_fx import compile_fx as compiler

    if patches:
        _copy_looked_up_seed()
    with no_caches():
        return compiler(gm, example_inputs, config_patches=dict(patches))


def compile_with(inner: Any, gm: Any, example_inputs: Any, *, patches: Mapping[str, Any]) -> Any:
    """Compiles a captured graph with Inductor; ``inner`` compiles the graphs after AOTAutograd.

    The C++ wrapper is off, as it would call kernels that do not exist.
    """
    from torch._inductor.compile_fx import compile_fx as compiler

    _copy_looked_up_seed()
    with no_caches():
        return compiler(
            gm, example_inputs, inner_compile=inner, config_patches=dict(patches, cpp_wrapper=False)
        )


@functools.lru_cache(maxsize=None)
def _copy_looked_up_seed() -> None:
    """Lets eager code run ``prims.inductor_lookup_seed``, which 2.5.1 and 2.6.0 refuse as it returns a view.

    Without it every graph that draws random numbers raises where an interpreter runs it, and a script that
    expects an exception takes that for its own. The function is ``torch/_inductor/inductor_prims.py``'s.
    """
    import torch._inductor.inductor_prims  # noqa: F401

    try:
        from torch._library.custom_ops import OPDEFS
    except ImportError:
        return
    operator = OPDEFS.get("prims::inductor_lookup_seed")
    if operator is not None:
        operator.register_kernel(None, lambda seeds, index: seeds[index].clone())


def compile_inner(gm: Any, example_inputs: Any, **keywords: Any) -> Any:
    """Compiles a graph after AOTAutograd as Inductor does (``torch/_inductor/compile_fx.py``)."""
    from torch._inductor import compile_fx

    return compile_fx.compile_fx_inner(gm, example_inputs, **keywords)


@contextlib.contextmanager
def stop_before_lowering() -> Iterator[Any]:
    """While active, Inductor raises :class:`LoweringReached` with its graph instead of lowering it."""
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
    """Whether a graph has call nodes; Inductor returns a graph without any unchanged, with no lowering."""
    from torch._dynamo.utils import count_calls

    return bool(count_calls(gm.graph))


@contextlib.contextmanager
def for_interpreted_kernels(scheduled: bool) -> Iterator[None]:
    """Sets Inductor up for interpreted loop IR: in this process, Python wrapper, no memory planning.

    Buffer reuse is off too, unless ``scheduled``.
    """
    names = ("graph_partition", "memory_planning", "triton__cudagraphs", "cpp_wrapper")
    off = dict.fromkeys(names if scheduled else (*names, "allow_buffer_reuse"), False)
    with no_caches(), settings.patched(settings.of("inductor"), **off), _in_process():
        yield


@contextlib.contextmanager
def _in_process() -> Iterator[None]:
    """Keeps Inductor's compilation in this process and synchronous, as the patched scheduler requires."""
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
    """Returns a context that turns buffer reuse off."""
    return settings.under("inductor", {"allow_buffer_reuse": False})


def lowering_class() -> Any:
    """Returns ``torch/_inductor/graph.py: GraphLowering``; None if it lacks ``compile_to_module``."""
    try:
        from torch._inductor.graph import GraphLowering
    except ImportError:
        return None
    return GraphLowering if hasattr(GraphLowering, "compile_to_module") else None

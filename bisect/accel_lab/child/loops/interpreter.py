"""Interprets Inductor's loop IR, with or without its scheduler, in place of generated kernels.

Inductor runs as usual up to its loop IR. Its scheduler is then replaced by one that keeps the order of
operations, fuses nothing and reuses no memory. Inductor's Python wrapper (inputs, sizes, allocations, eager
kernels, outputs) calls the interpreter where it would call a generated kernel. A wrong result here is
therefore a fault of lowering. With `scheduled=True` the real scheduler decides order, fusion, loop shape and
memory, and only generated kernels are replaced: a result that is wrong only here is a fault of the scheduler.
A result that is right in both is a fault of code generation.

Checked on 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence
from unittest import mock

import torch

from ..torch_internals import inductor, loop_ir
from .nest_trace import NotInterpretable
from .schedule import InOrder, OnGraph, interpreting_backend, report_post_grad

__all__ = ["NotInterpretable", "compile_loops", "not_interpretable"]

_LOCK = threading.RLock()


def compile_loops(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    scheduled: bool = False,
    together: bool = False,
    on_graph: Optional[OnGraph] = None,
    config_patches: Optional[Dict[str, Any]] = None,
) -> Callable[..., Any]:
    """Compiles a graph with Inductor so that its loop IR is interpreted, forward and backward.

    `on_graph(kind, text)` gets the post-grad graph ("post_grad") and the loops to be interpreted ("loop_ir",
    or "scheduled_ir" with `scheduled`). `config_patches` are Inductor settings, also for a backward graph
    that is compiled later. `together`, with `scheduled`, interprets fused nests as fused loops. Raises
    :class:`NotInterpretable`, possibly wrapped by torch, for an operation that the interpreter lacks.
    """
    inner = functools.partial(_inner_compile, scheduled=scheduled, together=together, on_graph=on_graph)
    return inductor.compile_with(inner, gm, example_inputs, patches=config_patches or {})  # type: ignore[no-any-return]


def not_interpretable(error: Optional[BaseException]) -> Optional[str]:
    """Returns the message of a :class:`NotInterpretable` among an exception and its causes, or None."""
    seen = set()
    queue = [error]
    while queue:
        current = queue.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, NotInterpretable):
            return str(current)
        queue += [current.__cause__, current.__context__, getattr(current, "inner_exception", None)]
    return None


def _inner_compile(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    scheduled: bool,
    together: bool,
    on_graph: Optional[OnGraph],
    **kwargs: Any,
) -> Any:
    """Replaces `compile_fx_inner`; the result has interpreted kernels."""
    reached: List[Any] = []
    has_work = inductor.has_calls(gm)
    replaced = _replaced_scheduler(scheduled, together, on_graph, reached)
    with _LOCK, inductor.for_interpreted_kernels(scheduled), replaced:
        compiled = inductor.compile_inner(gm, example_inputs, **kwargs)
    if has_work and not reached:
        raise RuntimeError("Inductor did not reach its lowering: the loops rung is inconclusive")
    return compiled


@contextlib.contextmanager
def _replaced_scheduler(
    scheduled: bool, together: bool, on_graph: Optional[OnGraph], reached: List[Any]
) -> Iterator[None]:
    scheduler = loop_ir.scheduler()
    if not scheduled:

        def in_order(*_: Any) -> InOrder:
            reached.append(True)
            return InOrder(on_graph)

        with mock.patch.object(scheduler, "Scheduler", in_order):
            yield
        return
    original = scheduler.Scheduler.create_backend

    def create_backend(self: Any, device: torch.device) -> Any:
        return interpreting_backend(original(self, device), on_graph, together)

    original_codegen = scheduler.Scheduler.codegen

    def codegen(self: Any) -> Any:
        reached.append(True)
        report_post_grad(on_graph)
        return original_codegen(self)

    with mock.patch.multiple(scheduler.Scheduler, create_backend=create_backend, codegen=codegen):
        yield

"""Runs what Inductor's lowering produced, without its scheduler and without its generated kernels.

Inductor is driven as usual up to its loop IR. Then its scheduler is replaced by one that keeps the order of
the operations, fuses nothing and reuses no memory; where a kernel would be generated, the Python wrapper that
Inductor writes anyway (inputs, sizes, allocation, calls of eager kernels, outputs) calls back into an
interpreter of the loop. So wrong numbers here were already wrong in the loop IR: lowering is at fault. With
`scheduled=True` the real scheduler decides order, fusion, loop shape and memory, and only the generated
kernels are replaced: what passes above and fails here is the scheduler's, what passes both is the code
generator's.

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
from .schedule import InOrder, OnGraph, interpreting_backend, tell_post_grad

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
    """A Dynamo backend that interprets Inductor's loop IR, forward and backward.

    `on_graph(kind, text)` gets the post-grad graph ("post_grad") and the loops that will be interpreted
    ("loop_ir", or "scheduled_ir" with `scheduled`). `config_patches` are Inductor settings; they also hold
    when the backward graph is compiled later. `together`, with `scheduled`, interprets what was fused as
    fused loops.
    """
    inner = functools.partial(_inner_compile, scheduled=scheduled, together=together, on_graph=on_graph)
    return inductor.compile_with(inner, gm, example_inputs, patches=config_patches or {})  # type: ignore[no-any-return]


def not_interpretable(error: Optional[BaseException]) -> Optional[str]:
    """The interpreter's reason for giving up, found behind what torch wrapped it in; None if it is none."""
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
    """Stands where `compile_fx_inner` would; the result is its result, with interpreted kernels inside."""
    reached: List[Any] = []
    has_work = inductor.has_calls(gm)
    replaced = _replaced_scheduler(scheduled, together, on_graph, reached)
    with _LOCK, inductor.for_interpreted_kernels(scheduled), replaced:
        compiled = inductor.compile_inner(gm, example_inputs, **kwargs)
    if has_work and not reached:
        raise RuntimeError("Inductor never came to its lowering, so the loop interpreter saw nothing")
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
        tell_post_grad(on_graph)
        return original_codegen(self)

    with mock.patch.multiple(scheduler.Scheduler, create_backend=create_backend, codegen=codegen):
        yield

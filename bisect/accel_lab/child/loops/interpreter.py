"""Runs what Inductor's lowering produced, without its scheduler and without its generated kernels.

Inductor is driven as usual up to its loop IR. Then its scheduler is replaced by one that keeps the order of
the operations, fuses nothing and reuses no memory; where a kernel would be generated, the Python wrapper that
Inductor writes anyway (inputs, sizes, allocation, calls of eager kernels, outputs) calls back into an
interpreter of the loop. So wrong numbers here were already wrong in the loop IR: lowering is at fault. With
`scheduled=True` the real scheduler decides order, fusion, loop shape and memory, and only the generated
kernels are replaced: what passes above and fails here is the scheduler's, what passes both is the code
generator's.

Relies on `torch/_inductor/{compile_fx,graph,scheduler}.py`; checked on 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence
from unittest import mock

import torch

from .. import torch_internals
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

    `on_graph(kind, text)` is told the post-grad graph ("post_grad") and the loops that will be interpreted
    ("loop_ir", or "scheduled_ir" with `scheduled`). `config_patches` are Inductor settings; they also hold
    when the backward graph is compiled later. `together`, with `scheduled`, interprets what was fused as
    fused loops.
    """
    from torch._inductor.compile_fx import compile_fx

    inner = functools.partial(_inner_compile, scheduled=scheduled, together=together, on_graph=on_graph)
    patches = dict(config_patches or {}, cpp_wrapper=False)
    with torch_internals.no_caches():
        return compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches)  # type: ignore[no-any-return]


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
    import torch._inductor.config as config
    from torch._inductor import compile_fx

    reached: List[Any] = []
    has_work = torch_internals.has_calls(gm)
    settings = dict.fromkeys(
        ("graph_partition", "memory_planning", "triton__cudagraphs", "cpp_wrapper"), False
    )
    if not scheduled:
        settings["allow_buffer_reuse"] = False
    with contextlib.ExitStack() as stack:
        stack.enter_context(_LOCK)
        stack.enter_context(torch_internals.no_caches())
        stack.enter_context(torch_internals.patched(config, **settings))
        stack.enter_context(_in_process(compile_fx))
        stack.enter_context(_replaced_scheduler(scheduled, together, on_graph, reached))
        compiled = compile_fx.compile_fx_inner(gm, example_inputs, **kwargs)
    if has_work and not reached:
        raise RuntimeError("Inductor never came to its lowering, so the loop interpreter saw nothing")
    return compiled


@contextlib.contextmanager
def _in_process(compile_fx: Any) -> Iterator[None]:
    """Inductor can compile in another process or later; a patched scheduler works in this process only."""
    with contextlib.ExitStack() as stack:
        normal = getattr(getattr(compile_fx, "FxCompileMode", None), "NORMAL", None)
        if normal is not None and hasattr(compile_fx, "fx_compile_mode"):
            stack.enter_context(mock.patch.object(compile_fx, "fx_compile_mode", normal))
        for name in ("fx_compile_async", "fx_compile_progressive"):
            if hasattr(compile_fx, name):
                stack.enter_context(mock.patch.object(compile_fx, name, False))
        yield


@contextlib.contextmanager
def _replaced_scheduler(
    scheduled: bool, together: bool, on_graph: Optional[OnGraph], reached: List[Any]
) -> Iterator[None]:
    from torch._inductor import scheduler

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

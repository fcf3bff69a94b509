"""Runs what Inductor's lowering produced, without its scheduler and without its generated kernels.

Inductor is driven as usual up to its loop IR. Then its scheduler is replaced by one that keeps the order of the
operations, fuses nothing and reuses no memory; where a kernel would be generated, the Python wrapper that Inductor
writes anyway (inputs, sizes, allocation, calls of eager kernels, outputs) calls back into an interpreter of the
loop. So wrong numbers here were already wrong in the loop IR: lowering is at fault. With `scheduled=True` the real
scheduler decides order, fusion, loop shape and memory, and only the generated kernels are replaced: what passes
above and fails here is the scheduler's, what passes both is the code generator's.

Relies on `torch/_inductor/{graph,scheduler,ir,loop_body}.py`; checked on 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple
from unittest import mock

import torch

from . import loop_ops, torch_internals
from .loop_trace import NotInterpretable, Program, trace

__all__ = ["NotInterpretable", "compile_loops", "not_interpretable"]

OnGraph = Callable[[str, str], None]

#: Kernels by number: the wrapper that Inductor writes finds its kernels here.
KERNELS: List[Kernel] = []

_LOCK = threading.RLock()


def compile_loops(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    scheduled: bool = False,
    on_graph: Optional[OnGraph] = None,
    config_patches: Optional[Dict[str, Any]] = None,
) -> Callable[..., Any]:
    """A Dynamo backend that interprets Inductor's loop IR, forward and backward.

    `on_graph(kind, text)` is told the post-grad graph ("post_grad"), the loop IR as interpreted ("loop_ir") and,
    with `scheduled`, the scheduler's nodes ("scheduled_ir"). `config_patches` are Inductor settings that must also
    hold when the backward graph is compiled later.
    """
    from torch._inductor.compile_fx import compile_fx

    inner = functools.partial(_inner_compile, scheduled=scheduled, on_graph=on_graph)
    patches = dict(config_patches or {}, cpp_wrapper=False)
    with torch_internals.no_caches():
        return compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches)  # type: ignore[no-any-return]


def not_interpretable(error: Optional[BaseException]) -> Optional[str]:
    """The interpreter's reason for giving up, found behind whatever torch wrapped it in; None if it is not one."""
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
    on_graph: Optional[OnGraph],
    **kwargs: Any,
) -> Any:
    """Stands where `compile_fx_inner` would; the result is its result, with interpreted kernels inside."""
    import torch._inductor.config as config
    from torch._dynamo.utils import count_calls
    from torch._inductor import compile_fx

    reached: List[Any] = []
    has_work = count_calls(gm.graph) > 0  # Inductor hands a graph without calls back as it is
    settings = dict(graph_partition=False, memory_planning=False, triton__cudagraphs=False, cpp_wrapper=False)
    if not scheduled:
        settings["allow_buffer_reuse"] = False
    with _LOCK, torch_internals.no_caches(), torch_internals.patched(config, **settings):
        with _in_process(compile_fx), _replaced_scheduler(scheduled, on_graph, reached):
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
def _replaced_scheduler(scheduled: bool, on_graph: Optional[OnGraph], reached: List[Any]) -> Iterator[None]:
    from torch._inductor import scheduler

    if not scheduled:

        def in_order(*_: Any) -> _InOrder:
            reached.append(True)
            return _InOrder(on_graph)

        with mock.patch.object(scheduler, "Scheduler", in_order):
            yield
        return
    original = scheduler.Scheduler.create_backend

    def create_backend(self: Any, device: torch.device) -> Any:
        return _interpreting_backend(original(self, device), on_graph)

    original_codegen = scheduler.Scheduler.codegen

    def codegen(self: Any) -> Any:
        reached.append(True)
        _tell_post_grad(on_graph)
        return original_codegen(self)

    with mock.patch.object(scheduler.Scheduler, "create_backend", create_backend):
        with mock.patch.object(scheduler.Scheduler, "codegen", codegen):
            yield


# -- the scheduler that schedules nothing -----------------------------------------------------------


class _Step:
    """What Inductor's wrapper wants to know of a scheduled node: which operation it is."""

    def __init__(self, node: Any) -> None:
        self.node = node


class _InOrder:
    """Stands in for Inductor's Scheduler: every operation by itself, in the order in which lowering made them."""

    def __init__(self, on_graph: Optional[OnGraph]) -> None:
        from torch._inductor.virtualized import V

        operations = getattr(V.graph, "operations", None)
        self.nodes = [_Step(op) for op in (V.graph.buffers if operations is None else operations)]
        self.current_node: Optional[_Step] = None
        self.current_stream_name: Optional[str] = None
        self.current_stream_idx: Optional[int] = None
        self.mutation_real_name: Dict[str, str] = {}
        self.mutation_renames: Dict[str, str] = {}
        self.name_to_buf: Dict[str, Any] = {}
        self.name_to_fused_node: Dict[str, Any] = {}
        self._on_graph = on_graph

    def codegen(self) -> None:
        """Write the body of Inductor's Python wrapper."""
        from torch._inductor import ir
        from torch._inductor.virtualized import V

        _tell_post_grad(self._on_graph)
        wrapper = V.graph.wrapper_code
        for step in self.nodes:
            self.current_node = step
            operation = step.node
            for buffer in _outputs(operation):
                if buffer.should_allocate():
                    wrapper.codegen_allocation(buffer)
            if operation.is_no_op():
                continue  # no elements, as the scheduler skips them too
            if isinstance(operation, ir.ComputedBuffer):
                kernel = Kernel(V.graph, [(_program(operation), operation.get_device())], {})
                if self._on_graph is not None:
                    self._on_graph("loop_ir", "%s:\n%s" % (operation, kernel.text()))
                wrapper.writeline(_call(kernel))
            elif isinstance(operation, ir.ExternKernel):
                operation.codegen(wrapper)
            else:
                raise NotInterpretable(
                    "%s: only generated code defines what it computes" % type(operation).__name__
                )

    def free_buffers(self) -> None:
        """Buffers live until the call returns."""

    def get_buf_stream(self, name: str) -> int:
        return 0

    def get_buf_mempool(self, name: str) -> None:
        return None

    def count_kernel_nodes(self, nodes: Any) -> int:
        return len(self.nodes)


def _outputs(operation: Any) -> List[Any]:
    getter = getattr(operation, "get_outputs", None)
    return list(getter()) if getter is not None else [operation]


def _program(buffer: Any) -> Program:
    """The loop nest of a ComputedBuffer as lowering built it: not reordered, not merged.

    Where the build has it, the canonical loop body is used. Making it runs Inductor's index propagation, whose
    faults are lowering's.
    """
    from torch._inductor import ir

    data = buffer.data
    if hasattr(buffer, "get_default_sizes_body"):
        (outer, inner), body, _ = buffer.get_default_sizes_body()
        return _body_program(body, list(outer), list(inner))
    reducing = bool(data.get_reduction_type())
    outer = list(data.get_pointwise_size()) if hasattr(data, "get_pointwise_size") else list(data.ranges)
    inner = list(data.get_reduction_size()) if reducing else []
    outer_index, outer_loops = _loop_variables("i", outer)
    inner_index, inner_loops = _loop_variables("r0_", inner)
    store = buffer.get_store_function()
    run = (
        functools.partial(store, outer_index, inner_index)
        if reducing
        else functools.partial(store, outer_index)
    )
    with mock.patch.object(ir.ConstantBuffer, "override_device", buffer.get_device()):
        return trace(run, outer_loops + inner_loops, len(outer_loops), loop_ops.known)


def _loop_variables(prefix: str, sizes: Sequence[Any]) -> Tuple[List[Any], List[Tuple[Any, Any]]]:
    """Index expressions for a loop nest (0 for a loop of one round, as Inductor does) and its real loops."""
    import sympy
    from torch._inductor.utils import sympy_index_symbol

    index: List[Any] = []
    loops = []
    for position, size in enumerate(sizes):
        if size == 1:
            index.append(sympy.Integer(0))
            continue
        symbol = sympy_index_symbol("%s%d" % (prefix, position))
        index.append(symbol)
        loops.append((symbol, size))
    return index, loops


# -- the real scheduler with interpreted kernels ------------------------------------------------------


def _interpreting_backend(backend: Any, on_graph: Optional[OnGraph]) -> Any:
    """A code generation backend that keeps its fusion rules and emits interpreted kernels."""

    def codegen_node(node: Any) -> None:
        from torch._inductor.codegen.common import Kernel as InductorKernel
        from torch._inductor.virtualized import V

        programs = []
        inductor_kernel = InductorKernel(increase_kernel_count=False)
        with V.set_kernel_handler(inductor_kernel):
            for part in node.get_nodes():
                part.decide_inplace_update()
                part.mark_run()
                programs.append((_scheduled_program(part), part.get_device()))
        kernel = Kernel(V.graph, programs, _inplace_names(inductor_kernel))
        if on_graph is not None:
            on_graph("scheduled_ir", "%s:\n%s" % (node.get_name(), kernel.text()))
        V.graph.wrapper_code.writeline(_call(kernel))

    def refuse(*_: Any, **__: Any) -> None:
        raise NotInterpretable("a template kernel: only generated code defines what it computes")

    backend.codegen_node = codegen_node
    for name in (
        "codegen_template",
        "codegen_combo_kernel",
        "codegen_nested_reduction",
        "codegen_mix_order_reduction",
    ):
        setattr(backend, name, refuse)
    backend.flush = lambda: None
    return backend


def _scheduled_program(node: Any) -> Program:
    """The loop nest of a scheduler node after its loops were reordered, merged and simplified."""
    iteration, reduction = (list(sizes) for sizes in node._sizes)
    return _body_program(lambda *index: node.codegen(index), iteration, reduction)


def _body_program(body: Callable[..., Any], outer: List[Any], inner: List[Any]) -> Program:
    outer_index, outer_loops = _numbered("i", outer)
    inner_index, inner_loops = _numbered("r0_", inner)
    run = functools.partial(body, outer_index, inner_index)
    return trace(run, outer_loops + inner_loops, len(outer_loops), loop_ops.known)


def _numbered(prefix: str, sizes: Sequence[Any]) -> Tuple[List[Any], List[Tuple[Any, Any]]]:
    from torch._inductor.utils import sympy_index_symbol

    symbols = [sympy_index_symbol("%s%d" % (prefix, n)) for n in range(len(sizes))]
    return list(symbols), list(zip(symbols, sizes))


def _inplace_names(kernel: Any) -> Dict[str, str]:
    """Buffers whose memory an output of the same kernel has taken over, and that output's name."""
    return {
        name: entry.other_names[-1]
        for name, entry in getattr(kernel.args, "inplace_buffers", {}).items()
        if hasattr(entry, "other_names")
    }


# -- kernels ------------------------------------------------------------------------------------------


class Kernel:
    """Loop nests that the wrapper runs at one place; called with the wrapper's local variables."""

    def __init__(self, graph: Any, programs: List[Tuple[Program, Any]], renamed: Dict[str, str]) -> None:
        self._graph = graph
        self._programs = programs
        self._renamed = dict(renamed)
        for program, _ in programs:
            for name in program.buffers():
                real = _real_name(graph, name)
                if real != name and name not in self._renamed:
                    self._renamed[name] = self._renamed.get(real, real)

    def text(self) -> str:
        """All loop nests as readable text."""
        return "\n".join(program.text() for program, _ in self._programs)

    def __call__(self, variables: Dict[str, Any]) -> None:
        memory = functools.partial(self._memory, variables)
        size_of = functools.partial(self._size_of, variables)
        with torch.no_grad():
            for program, device in self._programs:
                loop_ops.run(program, memory, size_of, device)

    def _memory(self, variables: Dict[str, Any], name: str) -> torch.Tensor:
        """A buffer's storage from its first element on, as one flat tensor."""
        name = self._renamed.get(name, name)
        tensor = variables.get(name)
        graph = self._graph
        while tensor is None and graph is not None:
            tensor = graph.constants.get(name)
            graph = getattr(graph, "parent", None)
        if not isinstance(tensor, torch.Tensor):
            raise RuntimeError("the loop IR uses %s before anything has computed it" % name)
        offset = tensor.storage_offset()
        length = tensor.untyped_storage().nbytes() // tensor.element_size() - offset
        return tensor.detach().as_strided((max(0, length),), (1,), offset)

    def _size_of(self, variables: Dict[str, Any], symbol: Any) -> Any:
        """The run-time value of a symbolic size."""
        value = variables.get(str(symbol))
        if value is None:
            sizevars = self._graph.sizevars
            known = getattr(sizevars, "inv_precomputed_replacements", {}).get(symbol)
            expr = sizevars.simplify(symbol) if known is None else known
            if expr == symbol:
                raise NotInterpretable("the value of the symbol %s is not known to the wrapper" % symbol)
            return loop_ops.evaluate(expr, functools.partial(self._size_of, variables))
        return value


def _call(kernel: Kernel) -> str:
    KERNELS.append(kernel)
    return "__import__('sys').modules[%r].KERNELS[%d](locals())" % (__name__, len(KERNELS) - 1)


def _real_name(graph: Any, name: str) -> str:
    """The buffer that is really written when `name` stands for a mutation of another one."""
    from torch._inductor import ir

    for _ in range(1000):
        buffer = getattr(graph, "name_to_buffer", {}).get(name)
        layout = getattr(buffer, "layout", None)
        if isinstance(layout, ir.MutationLayoutSHOULDREMOVE):
            name = layout.get_buffer().get_name()
        elif isinstance(buffer, getattr(ir, "MutationOutput", ())):
            name = buffer.get_mutation_names()[0]
        else:
            break
    return name


def _tell_post_grad(on_graph: Optional[OnGraph]) -> None:
    from torch._inductor.virtualized import V

    if on_graph is not None:
        module = getattr(V.graph, "orig_gm", None) or V.graph.module
        on_graph("post_grad", module.print_readable(print_output=False))

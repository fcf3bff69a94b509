"""Replaces Inductor's scheduler, or only its kernel code generation, by calls of the interpreter."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple
from unittest import mock

from ..torch_internals.loop_ir import index_symbol, silent_kernel, virtualized
from ..torch_internals.loop_ir import ir as inductor_ir
from . import operations as loop_ops
from .kernel import Kernel, call_of
from .nest_trace import NotInterpretable, Program, same_positions, trace

OnGraph = Callable[[str, str], None]


class _Step:
    """A minimal scheduler node, with what Inductor's wrapper needs."""

    def __init__(self, node: Any) -> None:
        self.node = node

    # Older releases sum these for their metrics after every lowering.

    def get_read_write_buffers_sizes(self) -> int:
        return 0

    def get_estimated_runtime(self) -> float:
        return 0.0


class InOrder:
    """Replaces Inductor's Scheduler: every operation is a kernel of its own, in lowering's order."""

    def __init__(self, on_graph: Optional[OnGraph]) -> None:
        V = virtualized()
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
        """Writes the body of Inductor's Python wrapper.

        Raises :class:`NotInterpretable` for an operation that only generated code defines.
        """
        V, ir = virtualized(), inductor_ir()
        report_post_grad(self._on_graph)
        wrapper = V.graph.wrapper_code
        for step in self.nodes:
            self.current_node = step
            operation = step.node
            for buffer in _outputs(operation):
                if buffer.should_allocate():
                    wrapper.codegen_allocation(buffer)
            if operation.is_no_op():
                continue  # no elements; the scheduler skips it too
            if isinstance(operation, ir.ComputedBuffer):
                program = _labelled(_program(operation), operation)
                kernel = Kernel(V.graph, [[(program, operation.get_device())]], {})
                if self._on_graph is not None:
                    self._on_graph("loop_ir", "%s:\n%s" % (operation, kernel.text()))
                wrapper.writeline(call_of(kernel))
            elif isinstance(operation, ir.ExternKernel):
                operation.codegen(wrapper)
            else:
                raise NotInterpretable(
                    "%s: only generated code defines what it computes" % type(operation).__name__
                )

    def free_buffers(self) -> None:
        """Does nothing; buffers live until the call returns."""

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
    """The loop nest of a ComputedBuffer as lowering built it, not reordered or merged.

    Uses the canonical loop body if this torch has it. Creating it runs Inductor's index propagation, which
    counts as part of lowering.
    """
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
    with mock.patch.object(inductor_ir().ConstantBuffer, "override_device", buffer.get_device()):
        return trace(run, outer_loops + inner_loops, len(outer_loops), loop_ops.known)


def _loop_variables(prefix: str, sizes: Sequence[Any]) -> Tuple[List[Any], List[Tuple[Any, Any]]]:
    """Index expressions of a loop nest (0 for a loop of size 1, as in Inductor), and its other loops."""
    import sympy

    index: List[Any] = []
    loops = []
    for position, size in enumerate(sizes):
        if size == 1:
            index.append(sympy.Integer(0))
            continue
        symbol = index_symbol("%s%d" % (prefix, position))
        index.append(symbol)
        loops.append((symbol, size))
    return index, loops


# -- the real scheduler with interpreted kernels ------------------------------------------------------


def interpreting_backend(backend: Any, on_graph: Optional[OnGraph], together: bool = False) -> Any:
    """Changes a code generation backend to emit interpreted kernels and keep its fusion rules.

    With ``together``, fused nodes are interpreted as fused loops.
    """

    def codegen_node(node: Any) -> None:
        V = virtualized()
        groups: List[List[Tuple[Program, Any]]] = []
        inductor_kernel = silent_kernel()
        with V.set_kernel_handler(inductor_kernel):
            for nest in _same_loops(node):
                groups.append([])
                for part in nest.get_nodes():
                    part.decide_inplace_update()
                    part.mark_run()
                    program = _labelled(_scheduled_program(part), part.node)
                    groups[-1].append((program, part.get_device()))
        kernel = Kernel(V.graph, groups, _inplace_names(inductor_kernel), together)
        if on_graph is not None:
            on_graph("scheduled_ir", "%s:\n%s" % (node.get_name(), kernel.text()))
        V.graph.wrapper_code.writeline(call_of(kernel))

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


def _same_loops(node: Any) -> List[Any]:
    """The parts of a scheduled node that become separate loops.

    The code generator shares fused outer loops only if it can keep the intermediate values in the inner
    loops; otherwise each part gets its own loops.
    """
    outer = getattr(node, "get_outer_nodes", None)
    return [node] if outer is None else list(outer())


def _labelled(program: Program, operation: Any) -> Program:
    """Sets the nest's operation name, its source operators, and whether it scatters."""
    V, ir = virtualized(), inductor_ir()
    program.name = operation.get_name()
    program.scatters = isinstance(operation.data, ir.Scatter)
    nodes = set(getattr(operation, "origins", ())).union(getattr(operation.data, "origins", ()))
    ordered = [node for node in V.graph.graph.nodes if node in nodes] or list(nodes)
    program.operators = [str(node.target) for node in ordered if node.op == "call_function"]
    return program


def _scheduled_program(node: Any) -> Program:
    """The loop nest of a scheduler node, after reordering, merging and simplification."""
    iteration, reduction = (list(sizes) for sizes in node._sizes)
    program = _body_program(lambda *index: node.codegen(index), iteration, reduction)
    if program.takes_positions() and not same_positions(_program(node.node), program):
        raise NotInterpretable(
            "the loops of an argmax or argmin were reordered: only generated code says what it returns"
        )
    return program


def _body_program(body: Callable[..., Any], outer: List[Any], inner: List[Any]) -> Program:
    outer_index, outer_loops = _numbered("i", outer)
    inner_index, inner_loops = _numbered("r0_", inner)
    run = functools.partial(body, outer_index, inner_index)
    return trace(run, outer_loops + inner_loops, len(outer_loops), loop_ops.known)


def _numbered(prefix: str, sizes: Sequence[Any]) -> Tuple[List[Any], List[Tuple[Any, Any]]]:
    symbols = [index_symbol("%s%d" % (prefix, n)) for n in range(len(sizes))]
    return list(symbols), list(zip(symbols, sizes))


def _inplace_names(kernel: Any) -> Dict[str, str]:
    """Maps each buffer that an output of the same kernel overwrites in place to that output's name."""
    return {
        name: entry.other_names[-1]
        for name, entry in getattr(kernel.args, "inplace_buffers", {}).items()
        if hasattr(entry, "other_names")
    }


def report_post_grad(on_graph: Optional[OnGraph]) -> None:
    V = virtualized()
    if on_graph is not None:
        module = getattr(V.graph, "orig_gm", None) or V.graph.module
        on_graph("post_grad", module.print_readable(print_output=False))

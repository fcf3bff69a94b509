"""Binds loop nests to Inductor's wrapper, from which they get their buffers and sizes."""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Sequence, Tuple

import torch

from ..torch_internals.loop_ir import ir as inductor_ir
from . import run
from .index_expressions import evaluate
from .nest_trace import NotInterpretable, Program

#: Kernels by number; the wrapper's code calls them by this number.
KERNELS: List[Kernel] = []


class Kernel:
    """The loop nests of one generated kernel; called with the wrapper's local variables.

    They run one after another or, with ``together``, as fused loops: all at one index, then at the next.
    ``groups`` are the nests that generated code puts into the same loops.
    """

    def __init__(
        self,
        graph: Any,
        groups: Sequence[Sequence[Tuple[Program, Any]]],
        renamed: Dict[str, str],
        together: bool = False,
    ) -> None:
        self._graph = graph
        self._together = together
        self._groups = [list(group) for group in groups]
        self._programs = [part for group in self._groups for part in group]
        self._renamed = dict(renamed)
        for program, _ in self._programs:
            for name in program.buffers():
                real = _real_name(graph, name)
                if real != name and name not in self._renamed:
                    self._renamed[name] = self._renamed.get(real, real)

    def text(self) -> str:
        """Formats all loop nests as text."""
        return "\n".join(program.text() for program, _ in self._programs)

    def __call__(self, variables: Dict[str, Any]) -> None:
        memory = functools.partial(self._memory, variables)
        size_of = functools.partial(self._size_of, variables)
        with torch.no_grad():
            if self._together:
                run.run_together(self._programs, memory, size_of)
                return
            for group in self._groups:
                run.run_fused(group, memory, size_of)

    def _memory(self, variables: Dict[str, Any], name: str) -> torch.Tensor:
        """A flat tensor over a buffer's storage, starting at the buffer's first element."""
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
            return evaluate(expr, functools.partial(self._size_of, variables))
        return value


def call_of(kernel: Kernel) -> str:
    """Registers a kernel and returns the Python statement by which the wrapper calls it."""
    KERNELS.append(kernel)
    return "__import__('sys').modules[%r].KERNELS[%d](locals())" % (__name__, len(KERNELS) - 1)


def _real_name(graph: Any, name: str) -> str:
    """The buffer that is written if `name` is a mutation of another buffer, else `name`."""
    mutation = inductor_ir().MutationLayoutSHOULDREMOVE
    for _ in range(1000):
        buffer: Any = getattr(graph, "name_to_buffer", {}).get(name)
        layout = getattr(buffer, "layout", None)
        if isinstance(layout, mutation):
            name = layout.get_buffer().get_name()
        elif type(buffer).__name__ == "MutationOutput":
            name = buffer.get_mutation_names()[0]
        else:
            break
    return name

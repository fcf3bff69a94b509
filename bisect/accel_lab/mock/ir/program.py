"""What a front end hands to the runtime: the steps of one graph for one set of shapes, over one arena of
memory.

A buffer is a named place in the arena with a layout; steps move tensors in and out, run kernels on the
device and run operators on the host. Both front ends make programs and both back ends run them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from accel_lab.mock.spec.kernel_spec import KernelSpec

from .layout import Layout

#: Where the meta of a graph says which of its inputs are parameters or buffers.
STATIC_INPUTS = "static_inputs"


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A tensor on the device: ``address`` is in bytes from the start of the program's arena.

    Two buffers may share an address (a permuted view of the same bytes, or a place used again).
    """

    name: str
    layout: Layout
    address: int


@dataclass(frozen=True, kw_only=True)
class Enter:
    """Transfer graph input number ``index`` to ``buffer``. ``resident``: the place is used for nothing
    else, so the transfer may be left out while the host tensor has not changed."""

    index: int
    buffer: str
    resident: bool = False


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Transfer a tensor that the graph holds itself to ``buffer``, once."""

    value: torch.Tensor
    buffer: str


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Run one kernel; the operands' hbm addresses are those of the arena."""

    spec: KernelSpec


@dataclass(frozen=True, kw_only=True)
class Ref:
    """In a host call's arguments: the value of a device buffer, or of graph input ``index`` where that
    stayed on the host (an integer, a tensor of a dtype that the device lacks), or of an earlier host call's
    result ``host``.

    ``stride``: the strides that the traced tensor has, for operators that ask for them (random numbers are
    drawn in the order of memory); None takes what there is.
    """

    buffer: str | None = None
    index: int | None = None
    host: str | None = None
    stride: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """Run ``target`` on the host: ``args`` and ``kwargs`` are pytrees with :class:`Ref` for tensors.

    Result number n goes to the device buffer ``buffers[n]`` where that is a name, and always to the host
    value ``names[n]``. ``reason`` says why the host (unsupported operator, dtype, ...); a call that only
    computes Python numbers or sizes has the empty reason and is no fallback.
    """

    node: str
    target: Any
    args: Any
    kwargs: Any
    names: tuple[str, ...]
    buffers: tuple[str | None, ...]
    reason: str
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Output:
    """One output of the graph: from a device buffer, a host value, a graph input or a constant; ``stride``
    is that of the traced output, so that the caller gets the strides that torch promised."""

    buffer: str | None = None
    host: str | None = None
    index: int | None = None
    value: Any = None
    stride: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None


Step = Enter | Constant | Kernel | HostCall


@dataclass(frozen=True, kw_only=True)
class Program:
    """One graph, lowered. ``texts`` maps artifact file names (``loop_ir.txt``, ``tiled.txt``...) to their
    contents.

    ``resident_bytes``: the arena's first bytes, which hold resident inputs and constants and nothing else.
    """

    name: str
    front_end: str
    buffers: dict[str, Buffer]
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    arena_bytes: int
    resident_bytes: int = 0
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def kernels(self) -> tuple[KernelSpec, ...]:
        """The kernels in the order in which they run."""
        return tuple(step.spec for step in self.steps if isinstance(step, Kernel))

    @property
    def fallbacks(self) -> tuple[HostCall, ...]:
        """The operators that run on the host because the device cannot."""
        return tuple(step for step in self.steps if isinstance(step, HostCall) and step.reason)

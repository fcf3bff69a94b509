"""Programs: the steps of one graph for one set of shapes, over one arena of device memory.

Steps transfer tensors to the device, run kernels and run operators on the host. Buffers are named places in
the arena with a layout. Both front ends emit programs and both back ends run them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from accel_lab.mock.spec.kernel_spec import KernelSpec

from .layout import Layout

#: Key of a graph's meta: the indices of inputs that are parameters or buffers.
STATIC_INPUTS = "static_inputs"


@dataclass(frozen=True, kw_only=True)
class Buffer:
    """A tensor on the device; ``address`` is in bytes from the start of the program's arena.

    Buffers may share an address: permuted views of the same bytes, or reused memory.
    """

    name: str
    layout: Layout
    address: int


@dataclass(frozen=True, kw_only=True)
class Enter:
    """Step: transfers graph input ``index`` to ``buffer``.

    ``resident``: nothing else uses the memory, so the transfer is skipped while the host tensor is unchanged.
    """

    index: int
    buffer: str
    resident: bool = False


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Step: transfers a constant of the graph to ``buffer``, once."""

    value: torch.Tensor
    buffer: str


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Step: runs one kernel; its hbm addresses are relative to the arena."""

    spec: KernelSpec


@dataclass(frozen=True, kw_only=True)
class Ref:
    """A tensor in a host call's arguments.

    It is a device buffer, graph input ``index`` that stayed on the host (an integer, a tensor of a dtype that
    the device lacks), or result ``host`` of an earlier host call. ``stride`` are the traced tensor's strides,
    for operators that depend on them (random numbers are drawn in memory order); None: any.
    """

    buffer: str | None = None
    index: int | None = None
    host: str | None = None
    stride: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class HostCall:
    """Step: runs ``target`` on the host; ``args`` and ``kwargs`` are pytrees with :class:`Ref` for tensors.

    Result n goes to the host value ``names[n]`` and, unless that is None, to the device buffer
    ``buffers[n]``. ``reason`` says why it runs on the host (unsupported operator, dtype, ...). A call that
    only computes Python numbers or sizes has an empty reason and is no fallback.
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
    """One output of the graph: a device buffer, a host value, a graph input or a constant.

    ``stride`` are the traced output's strides, which the caller gets.
    """

    buffer: str | None = None
    host: str | None = None
    index: int | None = None
    value: Any = None
    stride: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None


Step = Enter | Constant | Kernel | HostCall


@dataclass(frozen=True, kw_only=True)
class Program:
    """One lowered graph. ``texts`` maps artifact file names (``loop_ir.txt``...) to their content.

    ``resident_bytes`` is the size of the arena's first part, which holds only resident inputs and constants.
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
        """The kernels in execution order."""
        return tuple(step.spec for step in self.steps if isinstance(step, Kernel))

    @property
    def fallbacks(self) -> tuple[HostCall, ...]:
        """The host calls of operators that the device cannot run."""
        return tuple(step for step in self.steps if isinstance(step, HostCall) and step.reason)

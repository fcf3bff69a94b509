"""The loop IR: a graph as nests of loops over tensors in places, before and after fusion.

A buffer is a tensor in memory. A view says how axes walk a buffer: axis number n moves along dimension
``dims[n]`` of the
buffer, or not at all (None: a broadcast). So permutes, expands and inserted dimensions are views and cost
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from accel_lab.mock.device import FORMATS

from .layout import Layout

#: The units whose nests say per axis where each operand lies; the others take their operands by layout.
STRIDED = ("pointwise", "reduction")


@dataclass(kw_only=True, eq=False)
class LoopBuffer:
    """A tensor in memory. ``kind`` is input, constant, temporary or host (filled by a host call).

    ``alias_of`` names the buffer whose bytes it shares; ``padding`` is what its padding lanes are known to
    hold.
    """

    name: str
    size: tuple[int, ...]
    format: str
    kind: str = "temporary"
    index: int | None = None
    value: torch.Tensor | None = None
    order: tuple[int, ...] | None = None
    alias_of: str | None = None
    padding: str = "undefined"

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype."""
        return FORMATS[self.format].torch_dtype

    @property
    def empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.size

    @property
    def layout(self) -> Layout:
        """The chosen layout. An error before the layouts are chosen."""
        assert self.order is not None, self.name
        return Layout(size=self.size, order=self.order, format=self.format)


@dataclass(frozen=True, kw_only=True)
class View:
    """How ``size`` axes walk a buffer: ``dims[n]`` is the buffer's dimension for axis n, None where it is
    broadcast."""

    buffer: str
    dims: tuple[int | None, ...]
    size: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """The buffer's dimensions that an axis walks."""
        return tuple(dim for dim in self.dims if dim is not None)

    @property
    def broadcast(self) -> bool:
        """Whether an axis of more than one element stands still."""
        return any(dim is None and extent != 1 for dim, extent in zip(self.dims, self.size, strict=True))

    @property
    def is_identity(self) -> bool:
        """Whether axes and dimensions are the same."""
        return self.dims == tuple(range(len(self.dims)))

    def permuted(self, order: Sequence[int]) -> View:
        """The view with its axes in another order."""
        return View(
            buffer=self.buffer,
            dims=tuple(self.dims[axis] for axis in order),
            size=tuple(self.size[axis] for axis in order),
        )

    def expanded(self, size: Sequence[int]) -> View:
        """The view broadcast to ``size``, axes aligned at the end."""
        missing = len(size) - len(self.size)
        dims: list[int | None] = [None] * missing
        for axis, extent in enumerate(self.size):
            dims.append(self.dims[axis] if extent == size[axis + missing] else None)
        return View(buffer=self.buffer, dims=tuple(dims), size=tuple(size))

    def reshaped_by_ones(self, size: Sequence[int]) -> View | None:
        """The view with axes of one element put in or left out, or None where ``size`` needs more than
        that."""
        kept = [axis for axis, extent in enumerate(self.size) if extent != 1]
        if [self.size[axis] for axis in kept] != [extent for extent in size if extent != 1]:
            return None
        rest = iter(kept)
        same = tuple(size) == self.size
        dims = [
            self.dims[axis] if same else (None if extent == 1 else self.dims[next(rest)])
            for axis, extent in enumerate(size)
        ]
        return View(buffer=self.buffer, dims=tuple(dims), size=tuple(size))


def whole(place: LoopBuffer) -> View:
    """The view that walks a buffer as it is."""
    return View(buffer=place.name, dims=tuple(range(len(place.size))), size=place.size)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One statement of a strided nest: ``output = op(inputs)``; an input is a view along the loops or a
    number."""

    op: str
    inputs: tuple[View | float | int | bool, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def views(self) -> tuple[View, ...]:
        """The inputs that are tensors."""
        return tuple(entry for entry in self.inputs if isinstance(entry, View))


@dataclass(kw_only=True, eq=False)
class Nest:
    """One loop nest, later one kernel.

    Strided units have ``body`` and ``reduced`` (loop numbers); the others read ``reads`` (operand name to
    view) by
    layout. ``writes`` are the buffers that are left in memory, by operand name for the units that read by
    layout.
    ``order`` and ``lanes`` are the loops' order with the stick loop last, and the lanes of a stick, once
    chosen.
    """

    name: str
    unit: str
    op: str
    loops: tuple[int, ...]
    writes: dict[str, str]
    body: list[Line] = field(default_factory=list)
    reads: dict[str, View] = field(default_factory=dict)
    reduced: tuple[int, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    source: str = ""
    order: tuple[int, ...] = ()
    lanes: int = 0
    #: What the reduced operand's padding is declared to hold without a mask in this nest.
    declared: str = ""
    #: Per dimension of the space the cores side by side and the steps one after the other; set by the tiling.
    cores: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    #: The scratchpad address of each local buffer, and those locals that lie in main memory for want of room.
    scratch: dict[str, int] = field(default_factory=dict)
    spilled: dict[str, str] = field(default_factory=dict)

    @property
    def strided(self) -> bool:
        """Whether it is a pointwise or reduction nest."""
        return self.unit in STRIDED

    @property
    def produced(self) -> set[str]:
        """Every buffer that a statement fills, left in memory or not."""
        return {line.output for line in self.body} | set(self.writes.values())

    @property
    def read_views(self) -> list[View]:
        """What it reads from memory, without repetition."""
        if not self.strided:
            return list(self.reads.values())
        inside = {line.output for line in self.body}
        found = dict.fromkeys(view for line in self.body for view in line.views if view.buffer not in inside)
        return list(found)

    @property
    def inputs(self) -> list[str]:
        """The buffers that it reads from memory."""
        return list(dict.fromkeys(view.buffer for view in self.read_views))

    @property
    def locals(self) -> list[str]:
        """The buffers that only its own statements read, in the order in which they are filled."""
        stored = set(self.writes.values())
        return [line.output for line in self.body if line.output not in stored]


@dataclass(kw_only=True, eq=False)
class HostNest:
    """A call on the host between nests: what it reads and fills, and how to call it (the runtime's
    HostCall)."""

    name: str
    target: Any
    args: Any
    kwargs: Any
    reads: dict[str, View]
    names: tuple[str, ...]
    writes: tuple[str | None, ...]
    reason: str
    source: str = ""

    @property
    def inputs(self) -> list[str]:
        """The buffers that it reads."""
        return list(dict.fromkeys(view.buffer for view in self.reads.values()))

    @property
    def produced(self) -> set[str]:
        """The buffers that it fills."""
        return {name for name in self.writes if name is not None}


@dataclass(kw_only=True, eq=False)
class Result:
    """One output of the graph: a view of a buffer, a host value, a graph input's number, or a value."""

    view: View | None = None
    host: str | None = None
    index: int | None = None
    value: Any = None
    stride: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None


@dataclass(kw_only=True, eq=False)
class LoopProgram:
    """A graph as nests, in the order in which they run."""

    name: str
    buffers: dict[str, LoopBuffer] = field(default_factory=dict)
    nests: list[Nest | HostNest] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def root(self, name: str) -> str:
        """The buffer that owns a buffer's bytes."""
        return self.buffers[name].alias_of or name

    def uses(self) -> dict[str, int]:
        """How many nests and results read each buffer."""
        counts: dict[str, int] = dict.fromkeys(self.buffers, 0)
        for nest in self.nests:
            for name in nest.inputs:
                counts[name] += 1
        for result in self.results:
            if result.view is not None:
                counts[result.view.buffer] += 1
        return counts

    def without_dead(self) -> None:
        """Leave out the nests that nobody reads; host calls stay (they may have effects), and what they give
        is sent to the device only where something reads it there."""
        needed = {self.root(result.view.buffer) for result in self.results if result.view is not None}
        kept: list[Nest | HostNest] = []
        for nest in reversed(self.nests):
            if isinstance(nest, HostNest) or nest.produced & needed:
                needed.update(self.root(name) for name in nest.inputs)
                kept.append(nest)
        self.nests = kept[::-1]
        for nest in self.nests:
            if isinstance(nest, HostNest):
                nest.writes = tuple(
                    name if name and self.root(name) in needed else None for name in nest.writes
                )
            elif nest.unit == "pointwise":
                nest.writes = {name: place for name, place in nest.writes.items() if place in needed}


def elements(size: Iterable[int]) -> int:
    """The number of elements of a size."""
    return math.prod(size)

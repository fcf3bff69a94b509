"""The loop IR: a graph as loop nests over tensors in memory, before and after fusion.

A buffer is a tensor in memory. A view maps loop axes to a buffer: axis n indexes the buffer's dimension
``dims[n]``, or none (None: a broadcast). Permutes, expands and inserted dimensions are views and cost
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

#: Units whose operands are addressed with strides per loop; the other units read operands by layout.
STRIDED = ("pointwise", "reduction")


@dataclass(kw_only=True, eq=False)
class LoopBuffer:
    """A tensor in memory. ``kind`` is input, constant, temporary or host (filled by a host call).

    ``alias_of`` names the buffer that owns its bytes. ``padding`` is the known content of its padding lanes.
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
        """Whether the buffer has no elements."""
        return 0 in self.size

    @property
    def layout(self) -> Layout:
        """The chosen layout; asserts that it was chosen."""
        assert self.order is not None, self.name
        return Layout(size=self.size, order=self.order, format=self.format)


@dataclass(frozen=True, kw_only=True)
class View:
    """A mapping of axes with extents ``size`` to a buffer's dimensions.

    ``dims[n]`` is the dimension that axis n indexes, None for a broadcast.
    """

    buffer: str
    dims: tuple[int | None, ...]
    size: tuple[int, ...]

    @property
    def used(self) -> tuple[int, ...]:
        """The buffer's dimensions that an axis indexes."""
        return tuple(dim for dim in self.dims if dim is not None)

    @property
    def broadcast(self) -> bool:
        """Whether an axis of extent above 1 is broadcast."""
        return any(dim is None and extent != 1 for dim, extent in zip(self.dims, self.size, strict=True))

    @property
    def is_identity(self) -> bool:
        """Whether axis n indexes dimension n, for all axes."""
        return self.dims == tuple(range(len(self.dims)))

    def permuted(self, order: Sequence[int]) -> View:
        """Returns the view with its axes in another order."""
        return View(
            buffer=self.buffer,
            dims=tuple(self.dims[axis] for axis in order),
            size=tuple(self.size[axis] for axis in order),
        )

    def expanded(self, size: Sequence[int]) -> View:
        """Returns the view broadcast to ``size``, with trailing axes aligned."""
        missing = len(size) - len(self.size)
        dims: list[int | None] = [None] * missing
        for axis, extent in enumerate(self.size):
            dims.append(self.dims[axis] if extent == size[axis + missing] else None)
        return View(buffer=self.buffer, dims=tuple(dims), size=tuple(size))

    def reshaped_by_ones(self, size: Sequence[int]) -> View | None:
        """Returns the view with axes of extent 1 inserted or removed; None if that does not give ``size``."""
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
    """Returns the identity view of a buffer."""
    return View(buffer=place.name, dims=tuple(range(len(place.size))), size=place.size)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One statement of a strided nest, ``output = op(inputs)``; an input is a view or a number."""

    op: str
    inputs: tuple[View | float | int | bool, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def views(self) -> tuple[View, ...]:
        """The tensor inputs."""
        return tuple(entry for entry in self.inputs if isinstance(entry, View))


@dataclass(kw_only=True, eq=False)
class Nest:
    """One loop nest, which becomes one kernel.

    Strided units have ``body`` and ``reduced`` (loop numbers); the others have ``reads`` (operand name to
    view), by layout. ``writes`` maps to the buffers stored in memory; its keys are operand names for
    by-layout units. ``order`` is the loop order with the stick loop last, ``lanes`` the lanes of a stick;
    both are set by the layout choice.
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
    #: The declared, but not masked, padding state of the reduced operand.
    declared: str = ""
    #: For each dimension of the space: parallel cores and sequential steps; set by the tiling.
    cores: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    #: Scratchpad addresses of local buffers; locals spilled to main memory, by name of their buffer.
    scratch: dict[str, int] = field(default_factory=dict)
    spilled: dict[str, str] = field(default_factory=dict)

    @property
    def strided(self) -> bool:
        """Whether this is a pointwise or reduction nest."""
        return self.unit in STRIDED

    @property
    def produced(self) -> set[str]:
        """All buffers that the nest fills, stored in memory or local."""
        return {line.output for line in self.body} | set(self.writes.values())

    @property
    def read_views(self) -> list[View]:
        """The views that the nest reads from memory, deduplicated for strided nests."""
        if not self.strided:
            return list(self.reads.values())
        inside = {line.output for line in self.body}
        found = dict.fromkeys(view for line in self.body for view in line.views if view.buffer not in inside)
        return list(found)

    @property
    def inputs(self) -> list[str]:
        """The buffers that the nest reads from memory."""
        return list(dict.fromkeys(view.buffer for view in self.read_views))

    @property
    def locals(self) -> list[str]:
        """The buffers that only the nest itself reads, in the order in which they are filled."""
        stored = set(self.writes.values())
        return [line.output for line in self.body if line.output not in stored]


@dataclass(kw_only=True, eq=False)
class HostNest:
    """A host call between nests: the buffers that it reads and fills, and the call (see HostCall)."""

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
        """The buffers that the call reads."""
        return list(dict.fromkeys(view.buffer for view in self.reads.values()))

    @property
    def produced(self) -> set[str]:
        """The buffers that the call fills."""
        return {name for name in self.writes if name is not None}


@dataclass(kw_only=True, eq=False)
class Result:
    """One graph output: a view of a buffer, a host value, the index of a graph input, or a constant."""

    view: View | None = None
    host: str | None = None
    index: int | None = None
    value: Any = None
    stride: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None


@dataclass(kw_only=True, eq=False)
class LoopProgram:
    """A graph as loop nests and host calls, in execution order."""

    name: str
    buffers: dict[str, LoopBuffer] = field(default_factory=dict)
    nests: list[Nest | HostNest] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def root(self, name: str) -> str:
        """Returns the buffer that owns a buffer's bytes."""
        return self.buffers[name].alias_of or name

    def uses(self) -> dict[str, int]:
        """Returns the number of nests and results that read each buffer."""
        counts: dict[str, int] = dict.fromkeys(self.buffers, 0)
        for nest in self.nests:
            for name in nest.inputs:
                counts[name] += 1
        for result in self.results:
            if result.view is not None:
                counts[result.view.buffer] += 1
        return counts

    def without_dead(self) -> None:
        """Removes dead nests, in place.

        Host calls stay, as they may have side effects; their results are sent to the device only if something
        reads them there.
        """
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
    """Returns the number of elements of a size."""
    return math.prod(size)

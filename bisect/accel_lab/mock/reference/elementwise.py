"""Reference implementation of pointwise and reduction kernels by explicit element addresses.

It uses no strided views: an element's position is the sum of index times stride, as the spec defines it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch

from accel_lab.mock.runtime.memory import Memory, Region
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Operand, Statement

from .statements import as_number, evaluate, reduce


class Lattice:
    """The points of the iteration space that all cores visit in one step."""

    def __init__(self, space: tuple[Dim, ...], step: tuple[int, ...]) -> None:
        self.space = space
        self.index: list[torch.Tensor] = []
        self.local: list[torch.Tensor] = []
        self.core = torch.zeros((1,) * len(space), dtype=torch.int64)
        for position, (dim, at) in enumerate(zip(space, step, strict=True)):
            each = dim.extent // (dim.cores * dim.steps)
            core = torch.arange(dim.cores).repeat_interleave(each)
            local = torch.arange(each).repeat(dim.cores)
            shape = [-1 if n == position else 1 for n in range(len(space))]
            self.core = self.core * dim.cores + core.view(shape)
            self.local.append(local.view(shape))
            self.index.append((core * (each * dim.steps) + at * each + local).view(shape))
        self.shape = torch.broadcast_shapes(self.core.shape, *(entry.shape for entry in self.index))

    def logical(self, position: int) -> torch.Tensor:
        """Returns the logical index along a dimension of the space; for ``sticks``, in elements."""
        found = self.index[position]
        if self.space[position].kind == "sticks":
            for other, dim in enumerate(self.space):
                if dim.kind == "lanes":
                    found = found * dim.extent + self.index[other]
        return found


class Elementwise:
    """Runs one pointwise or reduction kernel."""

    def __init__(self, memory: Memory, scratchpads: Region, spec: KernelSpec, base: int) -> None:
        self.memory = memory
        self.scratchpads = scratchpads
        self.spec = spec
        self.base = base
        self.between = memory.device.scratchpad_bytes

    def run(self) -> None:
        """Runs all steps of the kernel."""
        if self.spec.unit == "pointwise":
            for step in self._steps():
                lattice = Lattice(self.spec.space, step)
                for statement in self.spec.body:
                    self._statement(statement, lattice)
        else:
            self._reduction()

    def _steps(self) -> Iterator[tuple[int, ...]]:
        return itertools.product(*(range(dim.steps) for dim in self.spec.space))

    def _line(self, operand: Operand, lattice: Lattice) -> tuple[torch.Tensor, torch.Tensor]:
        """(1-d tensor of an operand's memory, index into it for each point of the lattice).

        The index broadcasts over the lattice; its extent is 1 where the operand does not move.
        """
        word = operand.layout.number.word_bytes
        local = operand.memory == "scratchpad"
        index = torch.zeros((1,) * len(self.spec.space), dtype=torch.int64)
        for entry, stride in zip(lattice.local if local else lattice.index, operand.strides, strict=True):
            if stride:
                index = index + entry * stride
        if local:
            index = index + lattice.core * (self.between // word)
        count = int(index.max()) + 1 if index.numel() else 0
        region = self.scratchpads if local else self.memory
        address = operand.address + (0 if local else self.base)
        return region.typed(address, operand.layout.number.torch_dtype, (count,), (1,)), index

    def _read(self, name: Any, lattice: Lattice) -> Any:
        named = {operand.name: operand for operand in self.spec.operands}
        if not isinstance(name, str) or name not in named:
            return as_number(name)
        line, index = self._line(named[name], lattice)
        return line[index].expand(lattice.shape)

    def _write(self, name: str, value: Any, lattice: Lattice) -> None:
        line, index = self._line(self.spec.operand(name), lattice)
        held = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        held = held.to(line.dtype).expand(lattice.shape)
        for axis, extent in enumerate(index.shape):
            if extent == 1 and held.shape[axis] > 1:
                held = held.narrow(axis, 0, 1)
        line[index.reshape(-1)] = held.reshape(-1)

    def _statement(self, statement: Statement, lattice: Lattice) -> None:
        if statement.op == "index":
            value: Any = lattice.logical(statement.attributes["dim"])
        elif statement.op == "mask_tail":
            value = self._read(statement.inputs[0], lattice)
            beyond = lattice.logical(statement.attributes["dim"]) >= statement.attributes["valid"]
            dtype = self.spec.operand(statement.output).layout.number.torch_dtype
            held = value if isinstance(value, torch.Tensor) else torch.tensor(value).expand(lattice.shape)
            constant = torch.tensor(as_number(statement.attributes["value"])).to(dtype)
            value = torch.where(beyond, constant, held.to(dtype))
        else:
            inputs = [self._read(name, lattice) for name in statement.inputs]
            value = evaluate(statement.op, inputs, statement.attributes)
        self._write(statement.output, value, lattice)

    def _reduction(self) -> None:
        """Collects the values of each result over all steps, then reduces them at once."""
        *prologue, last = self.spec.body
        output = self.spec.operand(last.output)
        reduced = [position for position, dim in enumerate(self.spec.space) if dim.reduced]
        kept = [position for position, dim in enumerate(self.spec.space) if not dim.reduced]
        rows: dict[tuple[int, ...], list[torch.Tensor]] = {}
        lattices: dict[tuple[int, ...], Lattice] = {}
        for step in self._steps():
            lattice = Lattice(self.spec.space, step)
            for statement in prologue:
                self._statement(statement, lattice)
            value = self._read(last.inputs[0], lattice).permute(kept + reduced)
            key = tuple(step[position] for position in kept)
            outer = value.shape[: len(kept)]
            count = math.prod(value.shape[len(kept) :])
            rows.setdefault(key, []).append(value.reshape(*outer, count))
            lattices.setdefault(key, lattice)
        for key, parts in rows.items():
            whole = torch.cat(parts, -1)
            if whole.shape[-1] or last.op in ("sum", "prod", "any", "all"):
                line, index = self._line(output, lattices[key])
                places = index.permute(kept + reduced).reshape(
                    index.permute(kept + reduced).shape[: len(kept)]
                )
                result = reduce(last.op, whole).to(line.dtype)
                line[places.expand(result.shape).reshape(-1)] = result.reshape(-1)
        lanes = any(self.spec.space[position].kind == "lanes" for position in reduced)
        if lanes and output.layout.padding:
            address = self.base + output.address
            held = self.memory.read(output.layout, address)
            self.memory.write(output.layout, address, held, output.padding)

"""A cache of kernel specs; an equivalent kernel reuses a spec with other names and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from accel_lab.mock import faults

from .kernel_spec import KernelSpec, Operand, Statement


def key_of(spec: KernelSpec) -> str:
    """Returns the key of equivalent kernels: everything but names, origins and main-memory addresses."""
    numbers = {operand.name: number for number, operand in enumerate(spec.operands)}
    with_layouts = not faults.active("cache_key_misses_layout")
    operands = [
        (
            operand.role,
            operand.memory,
            operand.layout.format,
            operand.layout.size,
            operand.padding,
            *((operand.layout.order, operand.strides) if with_layouts else ()),
            operand.address if operand.memory == "scratchpad" else 0,
        )
        for operand in spec.operands
    ]
    body = [
        (
            step.op,
            [
                numbers.get(entry, entry) if isinstance(entry, str) else ("number", repr(entry))
                for entry in step.inputs
            ],
            numbers[step.output],
            sorted(step.attributes.items()),
        )
        for step in spec.body
    ]
    return repr(
        (spec.unit, spec.op, _space(spec, with_layouts), operands, body, sorted(spec.attributes.items()))
    )


def _space(spec: KernelSpec, with_layouts: bool) -> Any:
    """The space; with the fault, only its extents."""
    if with_layouts or not spec.body:
        return spec.space
    return sorted((dim.kind, dim.extent) for dim in spec.space if dim.kind != "outer" or dim.extent != 1)


@dataclass
class SpecCache:
    """Specs by key, shared by all graphs of a process."""

    held: dict[str, KernelSpec]
    hits: int = 0
    most: int = 10_000

    def of(self, spec: KernelSpec) -> KernelSpec:
        """Returns the first equivalent spec with the names and addresses of this one."""
        key = key_of(spec)
        first = self.held.get(key)
        if first is None:
            if len(self.held) >= self.most:
                self.held.clear()
            self.held[key] = spec
            return spec
        self.hits += 1
        return _renamed(first, spec)


def _renamed(first: KernelSpec, wanted: KernelSpec) -> KernelSpec:
    names = {old.name: new.name for old, new in zip(first.operands, wanted.operands, strict=True)}
    return replace(
        first,
        name=wanted.name,
        origins=wanted.origins,
        source=wanted.source,
        operands=tuple(_moved(old, new) for old, new in zip(first.operands, wanted.operands, strict=True)),
        body=tuple(
            Statement(
                op=step.op,
                inputs=_inputs(step.inputs, names),
                output=names[step.output],
                attributes=step.attributes,
            )
            for step in first.body
        ),
    )


def _inputs(
    inputs: Sequence[str | float | int | bool], names: dict[str, str]
) -> tuple[str | float | int | bool, ...]:
    return tuple(names.get(entry, entry) if isinstance(entry, str) else entry for entry in inputs)


def _moved(old: Operand, new: Operand) -> Operand:
    return replace(old, name=new.name, address=new.address)


CACHE = SpecCache(held={})

"""Emits a kernel spec from a nest with its layouts, work division and addresses."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from accel_lab.mock import faults
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.ir.loop_ir import Line, LoopProgram, Nest, View
from accel_lab.mock.spec.kernel_spec import Dim, KernelSpec, Operand, Statement

from .access import Space, strides
from .layout_choice import written_view
from .tiling import axes_by_layout


def encoded(value: Any) -> Any:
    """Returns a number, or a list of them, for JSON: infinities and NaN become strings."""
    if isinstance(value, list | tuple):
        return [encoded(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _mask_constant(value: Any) -> Any:
    if faults.active("mask_constant_nan") and value == -math.inf:
        return "nan"
    return encoded(value)


@dataclass(kw_only=True)
class Emitter:
    """Emits the specs of one program. ``addresses`` are those of the buffers that own bytes."""

    program: LoopProgram
    addresses: dict[str, int]

    def address(self, name: str) -> int:
        """Returns a buffer's byte address in the arena."""
        place = self.program.buffers[name]
        return self.addresses[place.alias_of or name]

    def spec(self, nest: Nest, number: int) -> KernelSpec:
        """Returns the spec of a nest as kernel number ``number``."""
        if nest.strided:
            return self._strided(nest, number)
        return self._by_layout(nest, number)

    def _by_layout(self, nest: Nest, number: int) -> KernelSpec:
        buffers = self.program.buffers
        axes = axes_by_layout(nest, buffers)
        names = [f"d{dim}" for dim in range(len(axes))]
        if nest.unit == "matmul":
            names[-3:] = ["m", "n", "k"]
        space = tuple(
            Dim(
                name=name,
                extent=axis.extent,
                cores=cores,
                steps=steps,
                reduced=nest.unit == "matmul" and name == "k",
            )
            for name, axis, cores, steps in zip(names, axes, nest.cores, nest.steps, strict=True)
        )
        operands = []
        for role, entries in (
            ("input", {name: view.buffer for name, view in nest.reads.items()}),
            ("output", nest.writes),
        ):
            for name, place_name in entries.items():
                place = buffers[place_name]
                operands.append(
                    Operand(
                        name=name,
                        role=role,
                        memory="hbm",
                        address=self.address(place_name),
                        layout=place.layout,
                        padding=place.padding,
                    )
                )
        if nest.op == "restickify" and faults.active("restickify_overread"):
            operands = _overread(operands)
        return KernelSpec(
            name=f"k{number:04d}_{nest.name}",
            unit=nest.unit,
            op=nest.op,
            space=space,
            operands=tuple(operands),
            attributes={key: encoded(value) for key, value in nest.attributes.items()},
            origins=nest.origins,
            source=nest.source,
        )

    def _strided(self, nest: Nest, number: int) -> KernelSpec:
        space = Space(loops=nest.loops, order=nest.order, lanes=nest.lanes)
        dims = tuple(
            Dim(
                name={"outer": f"i{axis}", "sticks": f"i{axis}s", "lanes": f"i{axis}l"}[kind],
                extent=extent,
                cores=cores,
                steps=steps,
                kind=kind,
                reduced=axis in nest.reduced,
            )
            for (axis, kind), extent, cores, steps in zip(
                space.axes, space.extents, nest.cores, nest.steps, strict=True
            )
        )
        names: dict[View, str] = {}
        operands = self._inputs(nest, space, names)
        operands += self._locals(nest, space, dims)
        if faults.active("scratchpad_overlap"):
            operands, shared = _on_one_address(operands)
            nest = replace(nest, body=[_renamed(line, shared) for line in nest.body])
        for place_name in nest.writes.values():
            place = self.program.buffers[place_name]
            view = written_view(nest, place)
            stride = strides(view, place.layout, space, written=True)
            assert stride is not None, (nest.name, place_name)
            operands.append(
                Operand(
                    name=place_name,
                    role="output",
                    memory="hbm",
                    address=self.address(place_name),
                    layout=place.layout,
                    strides=stride,
                    padding=place.padding,
                )
            )
        if nest.declared:
            reduced = nest.body[-1].views[0]
            name = names.get(reduced, reduced.buffer)
            operands = [
                replace(operand, padding=nest.declared) if operand.name == name else operand
                for operand in operands
            ]
        sticks = next(n for n, (_, kind) in enumerate(space.axes) if kind == "sticks")
        return KernelSpec(
            name=f"k{number:04d}_{nest.name}",
            unit=nest.unit,
            op=nest.op,
            space=dims,
            operands=tuple(operands),
            body=tuple(self._statement(line, names, sticks, space.valid) for line in nest.body),
            origins=nest.origins,
            source=nest.source,
        )

    def _inputs(self, nest: Nest, space: Space, names: dict[View, str]) -> list[Operand]:
        operands = []
        for view in nest.read_views:
            place = self.program.buffers[view.buffer]
            stride = strides(view, place.layout, space)
            assert stride is not None, (nest.name, view)
            if faults.active("broadcast_past_stick") and view.broadcast:
                stride = _past_stick(stride, space)
            name, count = view.buffer, 1
            while name in names.values():
                count += 1
                name = f"{view.buffer}_{count}"
            names[view] = name
            operands.append(
                Operand(
                    name=name,
                    role="input",
                    memory="hbm",
                    address=self.address(view.buffer),
                    layout=place.layout,
                    strides=stride,
                    padding=place.padding,
                )
            )
        return operands

    def _locals(self, nest: Nest, space: Space, dims: tuple[Dim, ...]) -> list[Operand]:
        shares = [dim.extent // (dim.cores * dim.steps) for dim in dims]
        operands = []
        for name in nest.locals:
            place = self.program.buffers[name]
            spilled = nest.spilled.get(name)
            masked = next(
                (line for line in nest.body if line.output == name and line.op == "mask_tail"), None
            )
            padding = _state(masked.attributes["value"]) if masked else "undefined"
            if spilled is not None:
                layout = self.program.buffers[spilled].layout
                memory, address, extents = "hbm", self.address(spilled), list(space.extents)
            else:
                layout = Layout(size=nest.loops, order=nest.order, format=place.format)
                memory, address, extents = "scratchpad", nest.scratch[name], shares
            operands.append(
                Operand(
                    name=name,
                    role="scratch",
                    memory=memory,
                    address=address,
                    layout=layout,
                    strides=_dense(extents),
                    padding=padding,
                )
            )
        return operands

    @staticmethod
    def _statement(line: Line, names: dict[View, str], sticks: int, valid: int) -> Statement:
        inputs = tuple(
            names.get(entry, entry.buffer) if isinstance(entry, View) else encoded(entry)
            for entry in line.inputs
        )
        attributes = {key: encoded(value) for key, value in line.attributes.items()}
        if line.op == "mask_tail":
            attributes = {"value": _mask_constant(line.attributes["value"]), "dim": sticks, "valid": valid}
        return Statement(op=line.op, inputs=inputs, output=line.output, attributes=attributes)


def _dense(extents: list[int]) -> tuple[int, ...]:
    return tuple(math.prod(extents[n + 1 :]) for n in range(len(extents)))


def _state(value: Any) -> str:
    """The padding state after masking with a constant."""
    if isinstance(value, bool):
        return "highest" if value else "lowest"
    if value in (0, 1):
        return "one" if value else "zero"
    return "highest" if value > 0 else "lowest"


def _on_one_address(operands: list[Operand]) -> tuple[list[Operand], dict[str, str]]:
    """Fault scratchpad_overlap: merges locals at one scratchpad address into one operand.

    Returns the remaining operands, and the merged names mapped to them.
    """
    kept: list[Operand] = []
    shared: dict[str, str] = {}
    for operand in operands:
        same = [
            other
            for other in kept
            if operand.memory == other.memory == "scratchpad"
            and (operand.address, operand.layout.format) == (other.address, other.layout.format)
            and operand.padding == other.padding == "undefined"
        ]
        if same:
            shared[operand.name] = same[0].name
        else:
            kept.append(operand)
    return kept, shared


def _renamed(line: Line, shared: dict[str, str]) -> Line:
    inputs = tuple(
        replace(entry, buffer=shared.get(entry.buffer, entry.buffer)) if isinstance(entry, View) else entry
        for entry in line.inputs
    )
    return replace(line, inputs=inputs, output=shared.get(line.output, line.output))


def _past_stick(stride: tuple[int, ...], space: Space) -> tuple[int, ...]:
    """Fault broadcast_past_stick: later sticks of a broadcast operand are read from the first one."""
    return tuple(0 if kind == "sticks" else step for step, (_, kind) in zip(stride, space.axes, strict=True))


def _overread(operands: list[Operand]) -> list[Operand]:
    """Fault restickify_overread: source and result use the padded extent as the valid one."""
    source, result = operands
    stick = source.layout.stick_dim
    if stick is None or not source.layout.padding:
        return operands
    size = list(source.layout.size)
    size[stick] += source.layout.padding
    return [
        replace(operand, layout=replace(operand.layout, size=tuple(size))) for operand in (source, result)
    ]

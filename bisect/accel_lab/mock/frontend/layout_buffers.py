"""Creates buffers while layouts are chosen: aliases of the same bytes, and copies where data must move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.ir.loop_ir import HostNest, Line, LoopBuffer, LoopProgram, Nest, View, whole

from .access import same_bytes


class BufferKeeper:
    """Creates buffers, aliases and copy kernels in the order in which they are needed."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.buffers = program.buffers
        self.nests: list[Nest | HostNest] = []
        self.producer: dict[str, Nest] = {}
        self._views: dict[View, str] = {}
        self._fixed: dict[tuple[View, str], View] = {}

    def _set_order(self, place: LoopBuffer, order: Sequence[int]) -> None:
        if place.order is None:
            place.order = tuple(order)

    def _new(
        self, hint: str, size: Sequence[int], format_name: str, order: Sequence[int] | None = None
    ) -> LoopBuffer:
        number, name = 0, hint
        while name in self.buffers:
            number += 1
            name = f"{hint}_{number}"
        place = LoopBuffer(name=name, size=tuple(size), format=format_name)
        self._set_order(place, range(len(place.size)) if order is None else order)
        self.buffers[name] = place
        return place

    def _alias(self, place: LoopBuffer, layout: Layout) -> LoopBuffer:
        if (layout.size, layout.order) == (place.size, place.order):
            return place
        alias = self._new(f"{place.name}_as", layout.size, layout.format, layout.order)
        alias.alias_of = place.alias_of or place.name
        alias.padding = place.padding
        return alias

    def resolve(self, view: View) -> LoopBuffer:
        """Returns a buffer with the axes of the view: an alias, or a copy if data must move."""
        place = self.buffers[view.buffer]
        if view.is_identity and view.size == place.size:
            return place
        if view not in self._views:
            self._views[view] = self._resolve(place, view).name
        return self.buffers[self._views[view]]

    def _resolve(self, place: LoopBuffer, view: View) -> LoopBuffer:
        if 0 in view.size:
            return self._new(f"{place.name}_empty", view.size, place.format)
        unused = [dim for dim in range(len(place.size)) if dim not in view.used]
        permuted = self._alias(place, place.layout.permuted((*unused, *view.used)))
        if permuted.size == view.size:
            return permuted
        layout = same_bytes(permuted.layout, view.size)
        if layout is not None:
            return self._alias(permuted, layout)
        return self._move("view", permuted, view.size, place.format, {"size": list(view.size)})

    def _move(
        self,
        op: str,
        source: LoopBuffer,
        size: Sequence[int],
        format_name: str,
        attributes: dict[str, object] | None = None,
    ) -> LoopBuffer:
        """Adds a movement kernel into a new buffer, which it returns."""
        result = self._new(f"{source.name}_{op}", size, format_name)
        self._add_move(op, source, result, attributes)
        return result

    def _add_move(
        self, op: str, source: LoopBuffer, result: LoopBuffer, attributes: dict[str, object] | None = None
    ) -> None:
        origin = self.producer.get(source.alias_of or source.name)
        self.nests.append(
            Nest(
                name=result.name,
                unit="movement",
                op=op,
                loops=result.size,
                reads={"input": whole(source)},
                writes={"output": result.name},
                attributes=dict(attributes or {}),
                origins=origin.origins if origin else (),
                source=origin.source if origin else "",
            )
        )

    def _with_stick_last(self, place: LoopBuffer) -> LoopBuffer:
        """Returns the buffer with its last dimension along the sticks, copying if needed."""
        if place.order and place.order[-1] == len(place.size) - 1:
            return place
        view = View(buffer=place.name, dims=tuple(range(len(place.size))), size=place.size)
        key = (view, "sticked last")
        if key not in self._fixed:
            self._fixed[key] = whole(self._move("restickify", place, place.size, place.format))
        return self.buffers[self._fixed[key].buffer]

    def _zero_padded(self, place: LoopBuffer) -> LoopBuffer:
        """Returns the buffer with zero padding: masked in its producer, or by a separate kernel."""
        if place.layout.padding == 0 or place.padding == "zero":
            return place
        root = self.buffers[place.alias_of or place.name]
        nest = self.producer.get(root.name)
        same_stick = place.layout.valid == root.layout.valid and place.layout.bytes == root.layout.bytes
        if nest is not None and nest.unit == "pointwise" and same_stick and self._mask_in(nest, root):
            root.padding = "zero"
            for alias in self.buffers.values():
                if alias.alias_of == root.name and alias.layout.padding == root.layout.padding:
                    alias.padding = "zero"
            return place
        masked = self._new(f"{place.name}_masked", place.size, place.format, place.order)
        masked.padding = "zero"
        line = Line(op="mask_tail", inputs=(whole(place),), output=masked.name, attributes={"value": 0})
        self.nests.append(
            Nest(
                name=masked.name,
                unit="pointwise",
                op="mask_tail",
                loops=place.size,
                writes={masked.name: masked.name},
                body=[line],
                origins=nest.origins if nest else (),
                source=nest.source if nest else "",
                order=place.layout.order,
                lanes=place.layout.lanes,
            )
        )
        return masked

    def _mask_in(self, nest: Nest, place: LoopBuffer) -> bool:
        """Masks the padding of a buffer with zeros in the pointwise nest that fills it, if possible."""
        if nest.lanes != place.layout.lanes or nest.order != place.order:
            return False
        position = next((n for n, line in enumerate(nest.body) if line.output == place.name), None)
        if position is None:
            return False
        raw = self._new(f"{place.name}_raw", place.size, place.format)
        nest.body[position] = replace(nest.body[position], output=raw.name)
        mask = Line(op="mask_tail", inputs=(whole(raw),), output=place.name, attributes={"value": 0})
        nest.body.insert(position + 1, mask)
        return True

"""Chooses each tensor's stick dimension, and inserts restickify kernels and masks where needed.

A permuted tensor, and often a reshaped one, is an alias of the same bytes and needs no kernel. If a kernel
cannot address an operand with strides, or the matrix unit needs another stick dimension, a movement kernel
copies the operand first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accel_lab.mock import faults
from accel_lab.mock.device import FORMATS
from accel_lab.mock.ir.layout import Layout
from accel_lab.mock.ir.loop_ir import HostNest, Line, LoopBuffer, LoopProgram, Nest, View, elements, whole
from accel_lab.mock.ir.neutral import NEUTRAL, neutral_number

from .access import LANE_COUNTS, Space, carrier, same_bytes, strides
from .layout_buffers import BufferKeeper

#: Movements whose result keeps the dimension order of the operand.
_KEEP_ORDER = [
    "copy",
    "slice",
    "cat",
    "constant_pad",
    "flip",
    "slice_scatter",
    "select_scatter",
    "repeat",
    "roll",
    "tril",
    "triu",
    "expand",
]
_MOVE_COST = 2.0
_WASTE_COST = 0.25


class Chooser(BufferKeeper):
    """Chooses layouts in one pass over the nests; a nest's operands already have theirs."""

    def run(self) -> None:
        """Chooses a layout for every buffer, in place."""
        self._choose_inputs()
        for nest in self.program.nests:
            if isinstance(nest, HostNest):
                nest.reads = {key: whole(self.resolve(view)) for key, view in nest.reads.items()}
                for name in filter(None, nest.writes):
                    self._set_order(self.buffers[name], range(len(self.buffers[name].size)))
                self.nests.append(nest)
            elif nest.strided:
                self._strided(nest)
            else:
                self._by_layout(nest)
        for result in self.program.results:
            if result.view is not None:
                result.view = whole(self.resolve(result.view))
        for place in self.buffers.values():
            if place.order is None:
                place.order = tuple(range(len(place.size)))
        self.program.nests = self.nests

    def _choose_inputs(self) -> None:
        """Gives graph inputs and constants the layout that their first matmul or convolution prefers."""
        wishes: dict[str, tuple[int, ...]] = {}
        for nest in self.program.nests:
            if not isinstance(nest, Nest) or nest.unit not in ("matmul", "convolution"):
                continue
            for view in nest.reads.values():
                place = self.buffers[view.buffer]
                rank = len(place.size)
                if nest.unit == "matmul" and view.dims and view.dims[-1] is not None:
                    stick = view.dims[-1]
                    order = (*(dim for dim in range(rank) if dim != stick), stick)
                elif nest.unit == "convolution" and view.is_identity:
                    order = _window_order(place.size)
                else:
                    continue
                wishes.setdefault(place.name, order)
        for place in self.buffers.values():
            if place.kind in ("input", "constant"):
                self._set_order(place, wishes.get(place.name, range(len(place.size))))

    # ---- units by layout

    def _by_layout(self, nest: Nest) -> None:
        reads = {name: self.resolve(view) for name, view in nest.reads.items()}
        if nest.unit == "movement" and nest.op == "view" and self._free_view(nest, reads["input"]):
            return
        if nest.unit == "matmul":
            reads["left"] = self._zero_padded(self._with_stick_last(reads["left"]))
            reads["right"] = self._with_stick_last(reads["right"])
        nest.reads = {name: whole(place) for name, place in reads.items()}
        first = next(iter(reads.values()), None)
        for name in nest.writes.values():
            place = self.buffers[name]
            order: Sequence[int] = range(len(place.size))
            if nest.unit == "convolution":
                order = _window_order(place.size)
            elif (
                first is not None
                and len(first.size) == len(place.size)
                and first.order is not None
                and (nest.unit in ("pool", "scan") or (nest.unit == "movement" and nest.op in _KEEP_ORDER))
            ):
                order = first.order
            self._set_order(place, order)
            self.producer[name] = nest
        self.nests.append(nest)

    def _free_view(self, nest: Nest, source: LoopBuffer) -> bool:
        """Turns the result of a reshape into an alias; False if the bytes must move."""
        result = self.buffers[nest.writes["output"]]
        layout = same_bytes(source.layout, result.size)
        if layout is None:
            return False
        result.order = layout.order
        result.alias_of = source.alias_of or source.name
        result.padding = source.padding
        return True

    # ---- strided nests

    def _strided(self, nest: Nest) -> None:
        best: tuple[float, tuple[int, ...], int] | None = None
        for order in self._orders(nest):
            for lanes in self._lane_counts(nest):
                cost = self._cost(nest, Space(loops=nest.loops, order=order, lanes=lanes))
                if cost is not None and (best is None or cost < best[0]):
                    best = (cost, order, lanes)
        if best is None:
            raise ValueError(f"no layout serves kernel {nest.name}")
        _, nest.order, nest.lanes = best
        space = Space(loops=nest.loops, order=nest.order, lanes=nest.lanes)
        casts: list[Line] = []
        moved: dict[View, View] = {}
        for view in nest.read_views:
            if strides(view, self.buffers[view.buffer].layout, space) is None:
                moved[view] = self._addressable_copy(view, space, casts)
        nest.body = [
            *casts,
            *(
                replace(
                    line,
                    inputs=tuple(
                        moved.get(entry, entry) if isinstance(entry, View) else entry for entry in line.inputs
                    ),
                )
                for line in nest.body
            ),
        ]
        if nest.unit == "reduction":
            self._mask_reduced(nest, space)
        after = self._lay_writes(nest, space)
        self.nests.append(nest)
        for source, result in after:
            self._add_move("copy", source, result)
        for name in nest.writes.values():
            self.producer[name] = nest

    def _orders(self, nest: Nest) -> list[tuple[int, ...]]:
        """Candidate loop orders: row-major, and that of each operand that has all loops."""
        rank = len(nest.loops)
        found = [tuple(range(rank))]
        for view in nest.read_views:
            layout = self.buffers[view.buffer].layout
            axis_of = {dim: axis for axis, dim in enumerate(view.dims) if dim is not None}
            walked = [axis_of[dim] for dim in layout.order if dim in axis_of]
            if walked and layout.stick_dim in axis_of:
                found.append((*(axis for axis in range(rank) if axis not in walked), *walked))
        if nest.op in ("argmax", "argmin") or nest.body[-1].op in ("argmax", "argmin"):
            (stick,) = nest.reduced
            found = [(*(axis for axis in range(rank) if axis != stick), stick)]
        return list(dict.fromkeys(found))

    def _lane_counts(self, nest: Nest) -> list[int]:
        names = [view.buffer for view in nest.read_views] + list(nest.writes.values())
        counts = {FORMATS[self.buffers[name].format].lanes for name in names}
        return [lanes for lanes in reversed(LANE_COUNTS) if lanes in counts]

    def _cost(self, nest: Nest, space: Space) -> float | None:
        """Cost in elements, of copies before and after and of wasted lanes; None if infeasible."""
        cost = 0.0
        if space.valid:
            cost += _WASTE_COST * elements(nest.loops) * (space.padded / space.valid - 1)
        for view in nest.read_views:
            place = self.buffers[view.buffer]
            if strides(view, place.layout, space) is not None:
                continue
            if self._varies(view, space) and carrier(place.format, space.lanes) is None:
                return None
            cost += _MOVE_COST * elements(place.size)
        for name in nest.writes.values():
            place = self.buffers[name]
            if self._written(nest, place, space) is None:
                if carrier(place.format, space.lanes) is None:
                    return None
                cost += _MOVE_COST * elements(place.size)
        return cost

    @staticmethod
    def _varies(view: View, space: Space) -> bool:
        return space.stick is not None and view.dims[space.stick] is not None and space.valid > 1

    def _written(self, nest: Nest, place: LoopBuffer, space: Space) -> tuple[int, ...] | None:
        layout = Layout(size=place.size, order=space.order, format=place.format)
        return strides(written_view(nest, place), layout, space, written=True)

    def _addressable_copy(self, view: View, space: Space, casts: list[Line]) -> View:
        """Copies a view's tensor so that the space can address it with strides.

        If the copy has a wider format, a cast back is added to ``casts``.
        """
        place = self.buffers[view.buffer]
        format_name = place.format
        if self._varies(view, space) and FORMATS[format_name].lanes != space.lanes:
            format_name = carrier(format_name, space.lanes) or format_name
        axes = [axis for axis in space.order if view.dims[axis] is not None and space.loops[axis] != 1]
        size = [space.loops[axis] for axis in axes]
        dims: list[int | None] = [view.dims[axis] for axis in axes]
        if space.stick not in axes:
            size.append(1)
            dims.append(None)
        wanted = View(buffer=view.buffer, dims=tuple(dims), size=tuple(size))
        key = (wanted, format_name)
        if key not in self._fixed:
            source = self.resolve(wanted)
            natural = tuple(range(len(size)))
            if source.order == natural and source.format == format_name:
                self._fixed[key] = whole(source)
            else:
                op = "restickify" if source.format == format_name else "copy"
                self._fixed[key] = whole(self._move(op, source, size, format_name))
        position = {axis: number for number, axis in enumerate(axes)}
        found = View(
            buffer=self._fixed[key].buffer,
            dims=tuple(position.get(axis) for axis in range(len(space.loops))),
            size=view.size,
        )
        if format_name == place.format:
            return found
        local = self._new(f"{place.name}_here", view.size, place.format)
        casts.append(Line(op="cast", inputs=(found,), output=local.name, attributes={"to": local.format}))
        return View(buffer=local.name, dims=tuple(range(len(view.size))), size=view.size)

    def _lay_writes(self, nest: Nest, space: Space) -> list[tuple[LoopBuffer, LoopBuffer]]:
        """Lays results out like the space. Those with other lane counts are written in a wider format.

        Returns the (wide, final) buffers to copy afterwards.
        """
        after: list[tuple[LoopBuffer, LoopBuffer]] = []
        for key, name in list(nest.writes.items()):
            place = self.buffers[name]
            self._set_order(place, space.order)
            if self._written(nest, place, space) is not None:
                continue
            carried = carrier(place.format, space.lanes)
            assert carried is not None, name
            wide = self._new(f"{name}_wide", place.size, carried, space.order)
            nest.writes[key] = wide.name
            if nest.unit == "reduction":
                nest.body[-1] = replace(nest.body[-1], output=wide.name)
            else:
                line = Line(op="cast", inputs=(whole(place),), output=wide.name, attributes={"to": carried})
                nest.body.append(line)
                local = self._new(f"{name}_here", place.size, place.format)
                nest.body = [_renamed(line, name, local.name) for line in nest.body]
            after.append((wide, place))
        return after

    def _mask_reduced(self, nest: Nest, space: Space) -> None:
        """Masks padding lanes that a reduction reads with its neutral element."""
        if space.stick is None or space.stick not in nest.reduced or space.padded == space.valid:
            return
        last = nest.body[-1]
        (operand,) = last.views
        neutral = NEUTRAL[last.op]
        place = self.buffers[operand.buffer]
        local = any(line.output == operand.buffer for line in nest.body)
        if not local and place.padding == neutral and self._varies(operand, space):
            return
        if faults.active("padding_undeclared"):
            nest.declared = neutral
            return
        masked = self._new(f"{operand.buffer}_masked", operand.size, place.format)
        nest.body[-1:] = [
            Line(
                op="mask_tail",
                inputs=(operand,),
                output=masked.name,
                attributes={"value": neutral_number(neutral, place.format)},
            ),
            replace(
                last,
                inputs=(View(buffer=masked.name, dims=tuple(range(len(operand.size))), size=operand.size),),
            ),
        ]


def _renamed(line: Line, old: str, new: str) -> Line:
    inputs = tuple(
        replace(entry, buffer=new) if isinstance(entry, View) and entry.buffer == old else entry
        for entry in line.inputs
    )
    return replace(line, inputs=inputs, output=new if line.output == old else line.output)


def _window_order(size: Sequence[int]) -> tuple[int, ...]:
    """The order for convolutions: channels along the sticks unless the last dimension is larger."""
    rank = len(size)
    if rank < 3 or size[1] < size[-1]:
        return tuple(range(rank))
    return (0, *range(2, rank), 1)


def written_view(nest: Nest, place: LoopBuffer) -> View:
    """Returns the view of a result over the loops; reduced loops do not index it."""
    dims = tuple(None if axis in nest.reduced else axis for axis in range(len(nest.loops)))
    return View(buffer=place.name, dims=dims, size=nest.loops)


def choose_layouts(program: LoopProgram) -> None:
    """Chooses a layout for every buffer and a loop order for every strided nest, in place."""
    Chooser(program).run()

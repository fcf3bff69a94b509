"""The builder that lowerings use to emit loop nests, and the registry of lowerings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from accel_lab.mock import faults
from accel_lab.mock.device import HALVES, format_of
from accel_lab.mock.ir.loop_ir import Line, LoopBuffer, LoopProgram, Nest, View, whole

from .formats import FORMATS_BY_DTYPE, NEUTRAL_OF_EMPTY, Number, fits_one_kernel, number_for

Handler = Callable[..., Any]

#: Maps ATen overload packets ("aten.add") and overloads ("aten.add.Tensor") to their lowering.
REGISTRY: dict[str, Handler] = {}


class Unsupported(Exception):
    """Raised if the device cannot run an operator; the message is the reason for the host call."""


def lowers(*names: str) -> Callable[[Handler], Handler]:
    """Registers a lowering ``handler(build, out, *args, **kwargs)`` for ATen packets or overloads."""

    def register(handler: Handler) -> Handler:
        for name in names:
            assert name not in REGISTRY, name
            REGISTRY[name] = handler
        return handler

    return register


def handler_of(target: Any) -> Handler | None:
    """Returns the lowering of an operator, or None."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    name = str(target)
    return REGISTRY.get(name) or REGISTRY.get(name.rpartition(".")[0])


class Builder:
    """Collects the nests of one graph."""

    def __init__(self, name: str) -> None:
        self.program = LoopProgram(name=name)
        self.node = ""
        self.source = ""
        self._count: dict[str, int] = {}
        #: The strides of the node's first operand in torch.
        self.input_strides: tuple[int, ...] = ()
        #: Whether that operand covers its whole storage.
        self.input_whole = True
        #: Buffers filled with a single number.
        self.constant: dict[str, Number] = {}
        #: Maps an fp32 buffer to the half-precision buffer that it was cast from.
        self.cast_from: dict[str, str] = {}
        #: Maps a reshaped buffer to its source, so that reshaping back costs nothing.
        self.reshaped: dict[str, View] = {}

    # ---- buffers

    def fresh(self, hint: str) -> str:
        """Returns an unused buffer name."""
        count = self._count.get(hint, 0)
        self._count[hint] = count + 1
        name = hint if not count else f"{hint}__{count}"
        return name if name not in self.program.buffers else self.fresh(hint)

    def buffer(
        self, size: Iterable[int], dtype: torch.dtype, kind: str = "temporary", hint: str = ""
    ) -> LoopBuffer:
        """Creates a buffer. Raises Unsupported if the device lacks the format."""
        entry = format_of(dtype)
        if entry is None:
            raise Unsupported(f"the device has no {str(dtype).removeprefix('torch.')}")
        name = self.fresh(hint or self.node)
        made = LoopBuffer(name=name, size=tuple(size), format=entry.name, kind=kind)
        self.program.buffers[name] = made
        return made

    def dtype(self, view: View) -> torch.dtype:
        """Returns a view's dtype."""
        return self.program.buffers[view.buffer].dtype

    def _nest(self, nest: Nest) -> None:
        nest.origins = (self.node,) if self.node else ()
        nest.source = self.source
        self.program.nests.append(nest)

    # ---- pointwise

    def pointwise(
        self,
        op: str,
        inputs: Sequence[View | Number],
        dtype: torch.dtype,
        *,
        compute: torch.dtype | None = None,
        attributes: dict[str, Any] | None = None,
        size: Sequence[int] | None = None,
    ) -> View:
        """Emits ``op(inputs)`` with the inputs broadcast and cast to ``compute`` (by default ``dtype``).

        The condition of a ``where`` is cast to bool. The result has ``dtype``.
        """
        if size is None:
            size = torch.broadcast_shapes(*(entry.size for entry in inputs if isinstance(entry, View)))
        made: list[View | Number] = []
        body: list[Line] = []
        for number, entry in enumerate(inputs):
            wanted = torch.bool if op == "where" and number == 0 else (compute or dtype)
            entry = self._as_number(entry, wanted, inputs)
            if isinstance(entry, View):
                entry = entry.expanded(tuple(size))
                if self.dtype(entry) != wanted:
                    entry = self._cast_inside(entry, wanted, body)
            made.append(entry)
        result = self.buffer(size, dtype)
        body.append(Line(op=op, inputs=tuple(made), output=result.name, attributes=attributes or {}))
        if not result.empty:
            self._nest(
                Nest(
                    name=result.name,
                    unit="pointwise",
                    op=op,
                    loops=tuple(size),
                    writes={result.name: result.name},
                    body=body,
                )
            )
        return whole(result)

    def _as_number(
        self, entry: View | Number, wanted: torch.dtype, inputs: Sequence[View | Number]
    ) -> View | Number:
        """Replaces a constant buffer by its number, if another input is a tensor."""
        if not isinstance(entry, View) or entry.buffer not in self.constant or self.dtype(entry) != wanted:
            return entry
        others = [i for i in inputs if isinstance(i, View) and i.buffer not in self.constant]
        return self.constant[entry.buffer] if others else entry

    def _cast_inside(self, view: View, dtype: torch.dtype, body: list[Line]) -> View:
        """A cast in the same nest; a separate nest if 8-byte integers and floats would mix."""
        if not fits_one_kernel(self.dtype(view), dtype):
            return self.cast(view, dtype)
        local = self.buffer(view.size, dtype, hint=f"{self.node}_as_{FORMATS_BY_DTYPE[dtype]}")
        body.append(
            Line(
                op="cast",
                inputs=(view,),
                output=local.name,
                attributes={"to": local.format},
            )
        )
        return View(buffer=local.name, dims=tuple(range(len(view.size))), size=view.size)

    def cast(self, view: View, dtype: torch.dtype) -> View:
        """Returns the view's tensor in another dtype; the view itself if it already has it."""
        have = self.dtype(view)
        if have == dtype:
            return view
        if view.buffer in self.constant and dtype in FORMATS_BY_DTYPE:
            value = torch.tensor(self.constant[view.buffer], dtype=have).to(dtype).item()
            return self.full(view.size, value, dtype)
        if fits_one_kernel(have, dtype):
            result = self.buffer(view.size, dtype)
            line = Line(op="cast", inputs=(view,), output=result.name, attributes={"to": result.format})
            if view.is_identity:
                self.cast_from[result.name] = view.buffer
            if not result.empty:
                self._nest(
                    Nest(
                        name=result.name,
                        unit="pointwise",
                        op="cast",
                        loops=view.size,
                        writes={result.name: result.name},
                        body=[line],
                    )
                )
            return whole(result)
        return self.unit("movement", "copy", {"input": view}, view.size, dtype)

    # ---- reductions

    def reduce(
        self,
        op: str,
        view: View,
        dims: Sequence[int] | None,
        keepdim: bool,
        dtype: torch.dtype,
        *,
        compute: torch.dtype | None = None,
    ) -> View:
        """Emits a reduction over ``dims`` (None or empty: all); the operand is cast to ``compute`` first."""
        if faults.active("accumulate_downcast"):
            view, dtype, compute = self._without_cast(view, dtype, compute)
        rank = len(view.size)
        axes = sorted({dim % rank for dim in dims} if dims and rank else range(rank))
        if (
            compute is not None
            and self.dtype(view) != compute
            and not fits_one_kernel(self.dtype(view), compute)
        ):
            view = self.cast(view, compute)
        if not fits_one_kernel(compute or self.dtype(view), dtype) and op not in ("argmax", "argmin"):
            raise Unsupported(f"{op} from {self.dtype(view)} to {dtype}")
        if not axes:
            return self.cast(self.cast(view, compute or dtype), dtype)
        size = tuple(1 if axis in axes else extent for axis, extent in enumerate(view.size))
        kept = [axis for axis in range(rank) if axis not in axes]
        if 0 in view.size and 0 not in size:
            if op not in NEUTRAL_OF_EMPTY:
                raise Unsupported(f"{op} of no elements")
            result = self.full(size, NEUTRAL_OF_EMPTY[op], dtype)
            return result if keepdim else result.permuted(kept)
        result_place = self.buffer(size, dtype)
        body: list[Line] = []
        if compute is not None and self.dtype(view) != compute:
            view = self._cast_inside(view, compute, body)
        body.append(Line(op=op, inputs=(view,), output=result_place.name))
        if not result_place.empty:
            self._nest(
                Nest(
                    name=result_place.name,
                    unit="reduction",
                    op=op,
                    loops=view.size,
                    reduced=tuple(axes),
                    writes={result_place.name: result_place.name},
                    body=body,
                )
            )
        result = whole(result_place)
        return result if keepdim else result.permuted(kept)

    def _without_cast(
        self, view: View, dtype: torch.dtype, compute: torch.dtype | None
    ) -> tuple[View, torch.dtype, torch.dtype | None]:
        """Fault accumulate_downcast: removes the cast of a half to fp32 before a reduction."""
        source = self.cast_from.get(view.buffer, view.buffer)
        half = self.program.buffers[source].dtype
        if dtype != torch.float32 or half not in HALVES:
            return view, dtype, compute
        return View(buffer=source, dims=view.dims, size=view.size), half, None

    # ---- units by layout

    def unit(
        self,
        unit: str,
        op: str,
        reads: dict[str, View],
        size: Iterable[int],
        dtype: torch.dtype,
        attributes: dict[str, Any] | None = None,
        *,
        output: str = "output",
    ) -> View:
        """Emits a kernel of a by-layout unit with one result."""
        return self.units(unit, op, reads, {output: (tuple(size), dtype)}, attributes)[0]

    def units(
        self,
        unit: str,
        op: str,
        reads: dict[str, View],
        outputs: dict[str, tuple[tuple[int, ...], torch.dtype]],
        attributes: dict[str, Any] | None = None,
    ) -> list[View]:
        """Emits a kernel of a by-layout unit with several results, by operand name."""
        reads = {name: self.dense(view) for name, view in reads.items()}
        made = {name: self.buffer(size, dtype) for name, (size, dtype) in outputs.items()}
        first = next(iter(made.values()))
        if not all(place.empty for place in made.values()):
            if any(0 in view.size for view in reads.values()) and unit != "fill":
                raise Unsupported("an operand has no elements")
            self._nest(
                Nest(
                    name=first.name,
                    unit=unit,
                    op=op,
                    loops=first.size,
                    reads=reads,
                    writes={name: place.name for name, place in made.items()},
                    attributes=attributes or {},
                )
            )
        return [whole(place) for place in made.values()]

    def dense(self, view: View) -> View:
        """Returns the view as a tensor without broadcasts, expanding it in memory if needed."""
        if not view.broadcast or 0 in view.size:
            return view
        axes = [axis for axis in range(len(view.size)) if view.dims[axis] is not None]
        base = View(
            buffer=view.buffer,
            dims=tuple(dim if dim is not None else None for dim in view.dims),
            size=tuple(extent if axis in axes else 1 for axis, extent in enumerate(view.size)),
        )
        if view.buffer in self.constant:
            return self.full(view.size, self.constant[view.buffer], self.dtype(view))
        return self.unit(
            "movement", "expand", {"input": base}, view.size, self.dtype(view), {"size": list(view.size)}
        )

    def reshape(self, view: View, size: Sequence[int]) -> View:
        """Returns the tensor reshaped to ``size``."""
        size = tuple(size)
        if size == view.size:
            return view
        easy = view.reshaped_by_ones(size)
        if easy is not None:
            return easy
        if view.buffer in self.constant:
            return self.full(size, self.constant[view.buffer], self.dtype(view))
        if view.is_identity and view.buffer in self.reshaped:
            return self.reshape(self.reshaped[view.buffer], size)
        view = self.dense(view)
        result = self.unit("movement", "view", {"input": view}, size, self.dtype(view), {"size": list(size)})
        self.reshaped[result.buffer] = view
        return result

    def full(self, size: Sequence[int], value: Number, dtype: torch.dtype) -> View:
        """Emits a tensor filled with one number."""
        attributes = {"value": number_for(value, dtype)}
        result = self.unit("fill", "full", {}, size, dtype, attributes)
        self.constant[result.buffer] = attributes["value"]
        return result

    def slice(self, view: View, dim: int, start: int, end: int, step: int = 1) -> View:
        """Returns ``view[start:end:step]`` along one dimension; the bounds must be in range."""
        size = list(view.size)
        size[dim] = max(0, -(-(end - start) // step))
        if tuple(size) == view.size:
            return view
        if view.dims[dim] is None:
            return View(buffer=view.buffer, dims=view.dims, size=tuple(size))
        attributes = {"dim": dim, "start": start, "end": end, "step": step}
        return self.unit("movement", "slice", {"input": view}, size, self.dtype(view), attributes)

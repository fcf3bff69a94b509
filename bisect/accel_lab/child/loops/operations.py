"""Executes operations of Inductor's loop IR on torch tensors that hold a whole iteration space.

A value has one dimension per loop (size 1 where it does not vary). Floats of 16 or fewer bits are computed in
float32, as in Inductor's kernels; an explicit `to_dtype` to such a type rounds. Accesses outside a buffer's
storage raise an error here, whereas generated code would access other memory.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import sympy
import torch

from . import memory as loop_memory
from . import philox, reductions
from .conflicts import differing_writes, note_conflict
from .index_expressions import affine, evaluate
from .nest_trace import Block, Instruction, NotInterpretable, Program, Ref
from .pointwise import ELEMENTWISE, compute_dtype

Memory = Callable[[str], torch.Tensor]
SizeOf = Callable[[sympy.Symbol], Any]


class Space:
    """A piece of an iteration space, with its loop variables, computed values and current mask."""

    def __init__(
        self,
        program: Program,
        ranges: Sequence[Tuple[int, int]],
        memory: Memory,
        size_of: SizeOf,
        device: torch.device,
        written: Set[int],
    ) -> None:
        self.program = program
        self.shape = [stop - start for start, stop in ranges]
        self.iteration_loops = program.iteration_loops
        self.device = device
        self.memory = memory
        self.size_of = size_of
        self._values: Dict[int, Any] = {}
        self._mask: Optional[torch.Tensor] = None
        self._written = written
        self._starts: Dict[sympy.Symbol, Tuple[int, int]] = {}
        self._symbols: Dict[sympy.Symbol, torch.Tensor] = {}
        for position, ((symbol, _), (start, stop)) in enumerate(zip(program.loops, ranges)):
            shape = [1] * len(ranges)
            shape[position] = stop - start
            self._starts[symbol] = (start, position)
            self._symbols[symbol] = torch.arange(start, stop, dtype=torch.int64, device=device).reshape(shape)

    # -- running ---------------------------------------------------------------------------------

    def execute(self, instructions: List[Instruction]) -> None:
        """Runs instructions in order and drops each value after its last use."""
        for instruction in instructions:
            result = self.apply(instruction.name, [self._resolve(arg) for arg in instruction.args])
            if isinstance(instruction.out, Ref):
                self._values[instruction.out.number] = result
            elif instruction.out is not None:
                for ref, value in zip(instruction.out, result):
                    self._values[ref.number] = value
            for number in instruction.dead:
                self._values.pop(number, None)

    def apply(self, name: str, args: List[Any]) -> Any:
        method = getattr(self, "op_" + name, None)
        try:
            return method(*args) if method is not None else self._elementwise(name, args)
        except (NotImplementedError, RuntimeError, TypeError) as error:
            text = str(error)
            if "not implemented for" in text or "not supported" in text or "unsupported" in text.lower():
                raise NotInterpretable(
                    "operation %s of the loop IR: %s" % (name, text.splitlines()[0])
                ) from error
            raise

    def _resolve(self, arg: Any) -> Any:
        if isinstance(arg, Ref):
            return self._values[arg.number]
        if isinstance(arg, tuple):
            return tuple(self._resolve(item) for item in arg)
        return arg

    def _symbol(self, symbol: sympy.Symbol) -> Any:
        value = self._symbols.get(symbol)
        return self.size_of(symbol) if value is None else value

    def index(self, expr: Any) -> torch.Tensor:
        """Evaluates an index expression to an int64 tensor with one dimension per loop."""
        value = evaluate(expr, self._symbol)
        if isinstance(value, torch.Tensor):
            return value
        return torch.full([1] * len(self.shape), value, dtype=torch.int64, device=self.device)

    def value(self, x: Any, like: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Returns an operand as a tensor with a dimension per loop; a number takes the dtype of ``like``."""
        if isinstance(x, torch.Tensor):
            return x
        if isinstance(x, sympy.Basic):
            x = evaluate(x, self._symbol)
        dtype = like.dtype if like is not None else torch.float32 if isinstance(x, float) else torch.int64
        if isinstance(x, float) and not (dtype.is_floating_point or dtype.is_complex):
            dtype = torch.float32
        return torch.full([1] * len(self.shape), x, dtype=dtype, device=self.device)

    def full(self, x: torch.Tensor) -> torch.Tensor:
        """Expands a value to every point of the space."""
        return x.expand(self.shape)

    def _elementwise(self, name: str, args: List[Any]) -> torch.Tensor:
        like = next((a for a in args if isinstance(a, torch.Tensor)), None)
        operands = [self.value(a, like) for a in args]
        return ELEMENTWISE[name](*operands)  # type: ignore[no-any-return]

    # -- constants and indices -------------------------------------------------------------------

    def op_constant(self, value: Any, dtype: torch.dtype) -> torch.Tensor:
        if isinstance(value, sympy.Basic):
            value = evaluate(value, self._symbol)
        if not (dtype.is_floating_point or dtype.is_complex) and isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")):
                raise NotInterpretable("constant %r of type %s" % (value, dtype))
            value = bool(value) if dtype == torch.bool else int(value)
        return torch.full([1] * len(self.shape), value, dtype=compute_dtype(dtype), device=self.device)

    def op_index_expr(self, expr: Any, dtype: torch.dtype) -> torch.Tensor:
        value = evaluate(expr, self._symbol)
        if not isinstance(value, torch.Tensor):
            value = torch.full(
                [1] * len(self.shape),
                value,
                dtype=torch.float64 if isinstance(value, float) else torch.int64,
                device=self.device,
            )
        return value.to(compute_dtype(dtype))  # type: ignore[no-any-return]

    op_value_expr = op_index_expr

    def op_indirect_indexing(self, symbol: Any, x: Any, size: Any, check: bool, wrap_neg: bool) -> None:
        index = self.value(x).to(torch.int64)
        extent = self.index(size)
        if wrap_neg:
            index = torch.where(index < 0, index + extent, index)
        if check:
            self._bounds(index, extent, True, True)
        self._symbols[symbol] = index

    def op_check_bounds(self, expr: Any, size: Any, lower: bool, upper: bool) -> None:
        self._bounds(self.index(expr), self.index(size), lower, upper)

    def _bounds(self, index: torch.Tensor, size: torch.Tensor, lower: bool, upper: bool) -> None:
        bad = torch.zeros_like(index, dtype=torch.bool)
        if lower:
            bad = bad | (index < 0)
        if upper:
            bad = bad | (index >= size)
        if self._mask is not None:
            bad = bad & self._mask
        if bool(bad.any()):
            where = torch.broadcast_to(index, bad.shape)[bad].flatten()[0]
            raise RuntimeError("index out of bounds: 0 <= %d < %d" % (int(where), int(size.flatten()[0])))

    def op_device_assert_async(self, cond: Any, msg: str) -> None:
        holds = self.value(cond).to(torch.bool)
        if self._mask is not None:
            holds = holds | ~self._mask
        if not bool(holds.all()):
            raise RuntimeError(msg)

    # -- masks -----------------------------------------------------------------------------------

    def op_masked(self, mask: Any, body: Block, other: Any) -> Any:
        condition = self.value(mask).to(torch.bool)
        outer = self._mask
        self._mask = condition if outer is None else condition & outer
        try:
            self.execute(body.instructions)
            inside = self._resolve(body.result)
        finally:
            self._mask = outer
        if isinstance(inside, tuple):
            others = other if isinstance(other, tuple) else (other,) * len(inside)
            return tuple(self._select(condition, i, o) for i, o in zip(inside, others))
        return self._select(condition, inside, other)

    def _select(self, condition: torch.Tensor, inside: Any, other: Any) -> torch.Tensor:
        inside = self.value(inside)
        if not isinstance(other, torch.Tensor):
            other = self.op_constant(other, inside.dtype)
        return torch.where(condition, inside, other)

    def op_where(self, condition: Any, yes: Any, no: Any) -> torch.Tensor:
        like = next((v for v in (yes, no) if isinstance(v, torch.Tensor)), None)
        return torch.where(self.value(condition).to(torch.bool), self.value(yes, like), self.value(no, like))

    # -- memory ----------------------------------------------------------------------------------

    def op_load(self, name: str, index: Any) -> torch.Tensor:
        flat = self.memory(name)
        strided = self._strided(index)
        view = None if strided is None else strided.of(flat)
        if view is None:
            return self.gather(flat, self.index(index), name)
        value = view.to(compute_dtype(flat.dtype))
        # A view must not change when this loop nest writes.
        shared = value.dtype == flat.dtype and flat.untyped_storage().data_ptr() in self._written
        return value.clone() if shared else value

    def gather(self, flat: torch.Tensor, where: torch.Tensor, name: str) -> torch.Tensor:
        """Returns the elements of memory at computed offsets."""
        return loop_memory.gather(flat, where, name, self._mask)

    def op_store(self, name: str, index: Any, value: Any, mode: Optional[str]) -> None:
        flat = self.memory(name)
        strided = self._strided(index) if mode is None else None
        what = self.value(value)
        if strided is not None and strided.one_to_one():
            view = strided.of(flat)
            if view is not None and torch.broadcast_shapes(view.shape, what.shape) == view.shape:
                view.copy_(what)
                return
        self.scatter(flat, self.index(index), what, name, mode)

    def scatter(
        self, flat: torch.Tensor, where: torch.Tensor, what: torch.Tensor, name: str, mode: Optional[str]
    ) -> None:
        """Writes elements of memory at computed offsets."""
        where, what = torch.broadcast_tensors(where, what)
        if mode is not None:  # every point contributes, also points that share an address
            where, what = self.full(where), self.full(what)
        loop_memory.scatter(flat, where, what, name, mode)
        if mode is None:
            self._look_at_duplicates(where, what.to(flat.dtype), name)

    def _look_at_duplicates(self, where: torch.Tensor, what: torch.Tensor, name: str) -> None:
        for pair in differing_writes(where, what):
            points = [self.point(position, where.shape) for position in pair]
            note_conflict("write_write", [self.program], name, points, by_contract=self.program.scatters)

    def point(self, position: int, shape: Sequence[int]) -> List[int]:
        """Returns the loop indices at a flat position of a value of that shape."""
        found: List[int] = []
        for size in reversed(shape):
            found.insert(0, position % size)
            position //= size
        starts = {place: start for start, place in self._starts.values()}
        return [starts.get(n, 0) + at for n, at in enumerate(found)][: self.iteration_loops]

    def _strided(self, index: Any) -> Optional[loop_memory.Strided]:
        """The index as an offset and a stride per loop; None if it is not affine."""
        linear = affine(index, self._starts, self._symbol)
        if linear is None:
            return None
        constant, factors = linear
        shape = [1] * len(self.shape)
        strides = [0] * len(self.shape)
        for symbol, factor in factors.items():
            start, position = self._starts[symbol]
            shape[position], strides[position] = self.shape[position], factor
            constant += factor * start
        return loop_memory.Strided(shape, strides, constant)

    def op_store_reduction(self, name: str, index: Any, value: Any) -> None:
        self.op_store(name, index, value, None)

    def op_load_seed(self, name: str, offset: Any) -> torch.Tensor:
        return self.op_load(name, offset)

    def op_bucketize(self, *args: Any) -> torch.Tensor:
        return reductions.bucketize(self, *args)

    # -- types -----------------------------------------------------------------------------------

    def op_to_dtype(
        self, x: Any, dtype: torch.dtype, src_dtype: Any = None, use_compute_types: Any = True
    ) -> torch.Tensor:
        return self.value(x).to(dtype).to(compute_dtype(dtype))

    def op_to_dtype_bitcast(self, x: Any, dtype: torch.dtype, src_dtype: torch.dtype) -> torch.Tensor:
        return self.value(x).to(src_dtype).contiguous().view(dtype).to(compute_dtype(dtype))

    def _rounded(self, x: Any, dtype: torch.dtype, name: str) -> torch.Tensor:
        value = self.value(x)
        return (getattr(torch, name)(value) if value.is_floating_point() else value).to(dtype)

    def op_trunc_to_int(self, x: Any, dtype: torch.dtype) -> torch.Tensor:
        return self._rounded(x, dtype, "trunc")

    def op_ceil_to_int(self, x: Any, dtype: torch.dtype) -> torch.Tensor:
        return self._rounded(x, dtype, "ceil")

    def op_floor_to_int(self, x: Any, dtype: torch.dtype) -> torch.Tensor:
        return self._rounded(x, dtype, "floor")

    def op_round_to_int(self, x: Any, dtype: torch.dtype) -> torch.Tensor:
        return self._rounded(x, dtype, "round")

    # -- integer division; a masked-off lane may have any divisor ----------------------------------

    def _divisor(self, x: torch.Tensor) -> torch.Tensor:
        if self._mask is None or x.is_floating_point():
            return x
        return torch.where(self._mask | (x != 0), x, torch.ones_like(x))

    def op_truncdiv(self, x: Any, y: Any) -> torch.Tensor:
        x = self.value(x)
        return torch.div(x, self._divisor(self.value(y, x)), rounding_mode="trunc")

    def op_floordiv(self, x: Any, y: Any) -> torch.Tensor:
        x = self.value(x)
        return torch.div(x, self._divisor(self.value(y, x)), rounding_mode="floor")

    def op_mod(self, x: Any, y: Any) -> torch.Tensor:
        x = self.value(x)
        return torch.fmod(x, self._divisor(self.value(y, x)))

    def op_remainder(self, x: Any, y: Any) -> torch.Tensor:
        x = self.value(x)
        return torch.remainder(x, self._divisor(self.value(y, x)))

    # -- several points at once --------------------------------------------------------------------

    def op_reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any) -> Any:
        return reductions.reduction(self, compute_dtype(dtype), kind, value)

    def op_scan(self, dtypes: Any, combine: Callable[..., Any], values: Tuple[Any, ...]) -> Any:
        return reductions.scan(self, combine, values)

    def op_sort(self, dtypes: Any, values: Tuple[Any, ...], stable: bool, descending: bool) -> Any:
        return reductions.sort(self, values, descending)

    # -- random numbers, polygamma, frexp ------------------------------------------------------------

    def _cpu_only(self) -> None:
        if self.device.type != "cpu":
            raise NotInterpretable("random numbers of the %s kernels" % self.device.type)

    def op_rand(self, seed: Any, offset: Any) -> torch.Tensor:
        self._cpu_only()
        return philox.rand(self.value(seed), self.value(offset))

    def op_randn(self, seed: Any, offset: Any) -> torch.Tensor:
        self._cpu_only()
        return philox.randn(self.value(seed), self.value(offset))

    def op_randint64(self, seed: Any, offset: Any, low: Any, high: Any) -> torch.Tensor:
        self._cpu_only()
        return philox.randint64(self.value(seed), self.value(offset), self.value(low), self.value(high))

    def op_polygamma(self, order: Any, x: Any) -> torch.Tensor:
        orders = self.value(order)
        first = int(orders.flatten()[0])
        if bool((orders != first).any()):
            raise NotInterpretable("polygamma with an order that varies")
        return torch.polygamma(first, self.value(x))

    def op_frexp(self, x: Any) -> Tuple[torch.Tensor, torch.Tensor]:
        mantissa, exponent = torch.frexp(self.value(x))
        return mantissa, exponent


def known(name: str) -> bool:
    """Whether the interpreter supports this operation."""
    return name in ELEMENTWISE or hasattr(Space, "op_" + name)

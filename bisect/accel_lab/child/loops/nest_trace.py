"""Records a loop nest of Inductor's IR as a list of instructions that can be read, printed and replayed.

A loop body of Inductor is a Python closure that calls `V.ops.<name>(...)`. It is recorded once, at compile
time, which separates the IR (here) from the meaning of an instruction (`operations`) and its execution
(`kernel`, `run`). Symbolic indices stay sympy expressions; values become numbered references.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import sympy

from ..torch_internals.loop_ir import virtualized


class NotInterpretable(Exception):
    """Raised if the loop interpreter does not support a part of the IR, so that the rung is inconclusive."""


class Ref:
    """A numbered reference to the result of an instruction."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return "%%%d" % self.number


class Block:
    """The body of `ops.masked`; its instructions only apply where the mask is true."""

    __slots__ = ("instructions", "result")

    def __init__(self, instructions: List[Instruction], result: Any) -> None:
        self.instructions = instructions
        self.result = result


class Instruction:
    """One call of `V.ops`; `out` is a reference, a tuple of references, or None (for stores)."""

    __slots__ = ("args", "dead", "name", "out")

    def __init__(self, out: Any, name: str, args: Tuple[Any, ...]) -> None:
        self.out = out
        self.name = name
        self.args = args
        self.dead: Tuple[int, ...] = ()  # numbers of values last used by this instruction


class Program:
    """A loop nest: its loops (outermost first, reduction loops last) and the body's instructions."""

    def __init__(
        self,
        loops: Sequence[Tuple[sympy.Symbol, Any]],
        iteration_loops: int,
        instructions: List[Instruction],
    ) -> None:
        self.loops = list(loops)
        self.iteration_loops = iteration_loops
        self.instructions = instructions
        # For conflicts: the operation's name, the operators that it was lowered from, in graph order,
        # and whether it writes to indices from a tensor.
        self.name = ""
        self.operators: List[str] = []
        self.scatters = False
        _mark_dead_values(instructions)

    def buffers(self) -> Set[str]:
        """Returns the names of all buffers that the body reads or writes."""
        found: Set[str] = set()
        for instruction in walk(self.instructions):
            if instruction.name in ("load", "load_seed", "store", "store_reduction"):
                found.add(instruction.args[0])
            elif instruction.name == "bucketize":
                found.update(arg[0] for arg in instruction.args if isinstance(arg, tuple))
        return found

    def written(self) -> Set[str]:
        """Returns the names of the buffers that the body writes."""
        return {i.args[0] for i in walk(self.instructions) if i.name in ("store", "store_reduction")}

    def takes_positions(self) -> bool:
        """Whether an argmax or argmin returns positions in loop order, without explicit indices."""
        found = [i.args[2:4] for i in walk(self.instructions) if i.name == "reduction"]
        return any(kind.startswith("arg") and not isinstance(value, tuple) for kind, value in found)

    def walks(self) -> List[Optional[List[Tuple[int, int]]]]:
        """Returns, for each load, the merged ``(size, stride)`` pairs along the reduction loops.

        None for a load whose index is not affine in the reduction loops.
        """
        loops = self.loops[self.iteration_loops :]
        return [_walk_of(i.args[1], loops) for i in walk(self.instructions) if i.name == "load"]

    def text(self) -> str:
        """Formats the nest as text, one instruction per line."""
        lines = []
        for depth, (symbol, size) in enumerate(self.loops):
            kind = "for" if depth < self.iteration_loops else "reduce"
            lines.append("%s %s in range(%s)" % (kind, symbol, size))
        lines.extend(_text(self.instructions, "  "))
        return "\n".join(lines)


def _walk_of(index: Any, loops: Sequence[Tuple[Any, Any]]) -> Optional[List[Tuple[int, int]]]:
    expanded = sympy.expand(index)
    merged: List[Tuple[int, int]] = []
    for symbol, size in loops:
        stride = expanded.coeff(symbol)
        if not (sympy.sympify(size).is_Integer and stride.is_Integer):
            return None
        if merged and merged[-1][1] == int(size) * int(stride):
            merged[-1] = (merged[-1][0] * int(size), int(stride))
        elif size != 1:
            merged.append((int(size), int(stride)))
    rest = expanded - sum(expanded.coeff(symbol) * symbol for symbol, _ in loops)
    return None if rest.free_symbols & {symbol for symbol, _ in loops} else merged


def same_positions(one: Program, two: Program) -> bool:
    """Whether two forms of a loop nest number the points of their reduction alike, judged by their loads."""
    if all(sum(size != 1 for _, size in p.loops[p.iteration_loops :]) <= 1 for p in (one, two)):
        return True
    before, after = one.walks(), two.walks()
    return before == after and None not in before


def trace(
    function: Callable[[], Any],
    loops: Sequence[Tuple[Any, Any]],
    iteration_loops: int,
    known: Callable[[str], bool],
) -> Program:
    """Runs the loop body `function` once with a recording ops handler and returns the nest.

    `known(name)` says whether an operation is supported; raises :class:`NotInterpretable` for another one.
    """
    recorder = _Recorder(known)
    with virtualized().set_ops_handler(recorder):
        function()
    return Program(loops, iteration_loops, recorder.instructions)


class _Recorder:
    """An ops handler that records calls; duck-typed, as the base class differs between releases."""

    def __init__(self, known: Callable[[str], bool]) -> None:
        self.instructions: List[Instruction] = []
        self._known = known
        self._values = 0
        self._indirect = 0

    def _new(self) -> Ref:
        self._values += 1
        return Ref(self._values - 1)

    def _emit(self, out: Any, name: str, args: Tuple[Any, ...]) -> Any:
        self.instructions.append(Instruction(out, name, args))
        return out

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__") or not self._known(name):
            raise NotInterpretable(
                "the loop IR uses the operation %r, which the interpreter does not know" % name
            )

        def record(*args: Any, **kwargs: Any) -> Any:
            return self._emit(self._new(), name, _positional(name, args, kwargs))

        return record

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        outer, self.instructions = self.instructions, []
        try:
            result = _unwrap(body())
            block = Block(self.instructions, result)
        finally:
            self.instructions = outer
        out: Any = tuple(self._new() for _ in result) if isinstance(result, tuple) else self._new()
        return self._emit(out, "masked", (mask, block, other))

    def indirect_indexing(self, x: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        # Inductor's own prefix ("tmp") and assumptions, because sympy simplifies by them.
        symbol = sympy.Symbol("tmp%d" % self._indirect, integer=True, nonnegative=True)
        self._indirect += 1
        self._emit(None, "indirect_indexing", (symbol, x, size, check, wrap_neg))
        return symbol

    def load(self, name: str, index: Any) -> Any:
        return self._emit(self._new(), "load", (name, index))

    def store(self, name: str, index: Any, value: Any, mode: Optional[str] = None) -> None:
        self._emit(None, "store", (name, index, value, mode))

    def store_reduction(self, name: str, index: Any, value: Any) -> None:
        self._emit(None, "store_reduction", (name, index, value))

    def check_bounds(self, expr: Any, size: Any, lower: bool, upper: bool) -> None:
        self._emit(None, "check_bounds", (expr, size, lower, upper))

    def device_assert_async(self, cond: Any, msg: str) -> Any:
        self._emit(None, "device_assert_async", (cond, msg))
        return cond

    def frexp(self, x: Any) -> Tuple[Any, Any]:
        return self._emit((self._new(), self._new()), "frexp", (x,))  # type: ignore[no-any-return]

    def reduction(self, dtype: Any, src_dtype: Any, reduction_type: str, value: Any) -> Any:
        count = {"welford_reduce": 3, "welford_combine": 3, "online_softmax_reduce": 2}.get(
            reduction_type, 2 if reduction_type.endswith("_with_value") else 1
        )
        out: Any = self._new() if count == 1 else tuple(self._new() for _ in range(count))
        return self._emit(out, "reduction", (dtype, src_dtype, reduction_type, value))

    def scan(self, dtypes: Any, combine_fn: Any, values: Any) -> Any:
        return self._emit(tuple(self._new() for _ in values), "scan", (dtypes, combine_fn, values))

    def sort(self, dtypes: Any, values: Any, stable: bool, descending: bool) -> Any:
        return self._emit(tuple(self._new() for _ in values), "sort", (dtypes, values, stable, descending))


# Parameter names of operations that lowerings call with keywords; an omitted argument becomes None.
_PARAMETERS: Dict[str, Tuple[str, ...]] = {
    "constant": ("value", "dtype"),
    "index_expr": ("expr", "dtype"),
    "value_expr": ("expr", "dtype"),
    "to_dtype": ("x", "dtype", "src_dtype", "use_compute_types"),
    "to_dtype_bitcast": ("x", "dtype", "src_dtype"),
    "trunc_to_int": ("x", "dtype"),
    "ceil_to_int": ("x", "dtype"),
    "floor_to_int": ("x", "dtype"),
    "round_to_int": ("x", "dtype"),
    "bucketize": (
        "values",
        "boundaries",
        "boundary_indices",
        "indexing_dtype",
        "right",
        "sorter",
        "sorter_indices",
    ),
}


def _positional(name: str, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Any, ...]:
    if not kwargs:
        return args
    rest = _PARAMETERS.get(name, ())[len(args) :]
    if not set(kwargs) <= set(rest):
        raise NotInterpretable("operation %r is called with keywords %s" % (name, sorted(kwargs)))
    return (*args, *(kwargs.get(key) for key in rest))


def _unwrap(value: Any) -> Any:
    """Removes the OpsValue wrapper that Inductor uses for operator overloading."""
    if isinstance(value, (tuple, list)):
        return tuple(_unwrap(v) for v in value)
    return getattr(value, "value", value)


def walk(instructions: List[Instruction]) -> List[Instruction]:
    found = []
    for instruction in instructions:
        found.append(instruction)
        for arg in instruction.args:
            if isinstance(arg, Block):
                found.extend(walk(arg.instructions))
    return found


def refs(value: Any) -> List[int]:
    """Returns the numbers of all references in an argument, including nested ones."""
    if isinstance(value, Ref):
        return [value.number]
    if isinstance(value, (tuple, list)):
        return [n for item in value for n in refs(item)]
    if isinstance(value, Block):
        return [n for i in value.instructions for n in refs(i.args)] + refs(value.result)
    return []


def _mark_dead_values(instructions: List[Instruction]) -> None:
    """Sets ``dead`` of each top-level instruction, so that values can be freed after their last use."""
    last: Dict[int, int] = {}
    for position, instruction in enumerate(instructions):
        for number in refs(instruction.args) + refs(instruction.out):
            last[number] = position
    dying: Dict[int, List[int]] = {}
    for number, position in last.items():
        dying.setdefault(position, []).append(number)
    for position, numbers in dying.items():
        instructions[position].dead = tuple(numbers)


def _text(instructions: List[Instruction], indent: str) -> List[str]:
    lines = []
    for instruction in instructions:
        shown = []
        nested: List[str] = []
        for arg in instruction.args:
            if isinstance(arg, Block):
                shown.append("body -> %r" % (arg.result,))
                nested = _text(arg.instructions, indent + "  ")
            elif callable(arg) and not isinstance(arg, (sympy.Basic, type)):
                shown.append("<combine>")
            else:
                shown.append(str(arg))
        left = "" if instruction.out is None else "%s = " % (instruction.out,)
        lines.extend(nested)
        lines.append("%s%s%s(%s)" % (indent, left, instruction.name, ", ".join(shown)))
    return lines

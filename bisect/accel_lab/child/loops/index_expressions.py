"""Evaluates the sympy index expressions of Inductor's loop IR on whole iteration spaces, in exact integers.

A symbol is a Python int (a size) or an int64 tensor (a loop variable, an index read from memory). Functions
are looked up by class name, because torch has its own (FloorDiv, ModularIndexing, ...) besides sympy's, and
both have moved between releases.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Container, Dict, List, Optional, Sequence, Tuple

import sympy
import torch

from .nest_trace import NotInterpretable


def evaluate(expr: Any, lookup: Callable[[sympy.Symbol], Any]) -> Any:
    """Returns the value of `expr`: an int, float, bool or tensor. `lookup` returns the value of a symbol.

    Raises :class:`NotInterpretable` for an unknown function.
    """
    if not isinstance(expr, sympy.Basic):
        return expr
    if isinstance(expr, sympy.Symbol):
        return lookup(expr)
    if isinstance(expr, sympy.Integer):
        return int(expr)
    if isinstance(expr, sympy.Mul):
        return _product(expr, lookup)
    name = type(expr).__name__
    if isinstance(expr, sympy.Number):
        return _number(expr, name)
    function = _FUNCTIONS.get(name)
    if function is None:
        raise NotInterpretable(
            "index expression %s uses %s, which the interpreter does not know" % (expr, name)
        )
    return function(*[evaluate(arg, lookup) for arg in expr.args])


def affine(
    expr: Any, loops: Container[sympy.Symbol], lookup: Callable[[sympy.Symbol], Any]
) -> Optional[Tuple[int, Dict[sympy.Symbol, int]]]:
    """Returns `expr` as `(constant, {loop variable: integer factor})`, or None if it is not affine."""
    if isinstance(expr, int):
        return expr, {}
    if isinstance(expr, sympy.Symbol) and expr in loops:
        return 0, {expr: 1}
    if isinstance(expr, sympy.Add):
        constant = 0
        factors: Dict[sympy.Symbol, int] = {}
        for arg in expr.args:
            part = affine(arg, loops, lookup)
            if part is None:
                return None
            constant += part[0]
            for symbol, factor in part[1].items():
                factors[symbol] = factors.get(symbol, 0) + factor
        return constant, factors
    if isinstance(expr, sympy.Mul) and all(not isinstance(a, sympy.Rational) or a.q == 1 for a in expr.args):
        return _affine_product([affine(arg, loops, lookup) for arg in expr.args])
    if not isinstance(expr, sympy.Basic) or any(symbol in loops for symbol in expr.free_symbols):
        return None
    value = evaluate(expr, lookup)
    return (value, {}) if isinstance(value, int) else None


def _affine_product(
    parts: Sequence[Optional[Tuple[int, Dict[sympy.Symbol, int]]]],
) -> Optional[Tuple[int, Dict[sympy.Symbol, int]]]:
    constant = 1
    factors: Dict[sympy.Symbol, int] = {}
    for part in parts:
        if part is None or (part[1] and factors):
            return None
        if part[1]:
            factors = {symbol: factor * constant for symbol, factor in part[1].items()}
        else:
            factors = {symbol: factor * part[0] for symbol, factor in factors.items()}
        constant *= part[0]
    return constant, factors


def _number(expr: Any, name: str) -> Any:
    if name in ("IntInfinity", "Infinity"):
        return math.inf
    if name in ("NegativeIntInfinity", "NegativeInfinity"):
        return -math.inf
    return float(expr)


def _product(expr: sympy.Mul, lookup: Callable[[sympy.Symbol], Any]) -> Any:
    """Evaluates a product; rational factors divide last, so that (1/2)*s0*8 stays an exact integer."""
    numerator: Any = 1
    denominator = 1
    for arg in expr.args:
        if isinstance(arg, sympy.Rational):
            numerator = numerator * int(arg.p)
            denominator *= int(arg.q)
        elif isinstance(arg, sympy.Pow) and arg.exp == -1:
            below = evaluate(arg.base, lookup)
            if isinstance(below, torch.Tensor):
                raise NotInterpretable("index expression %s divides by a loop variable" % expr)
            denominator *= below
        else:
            numerator = numerator * evaluate(arg, lookup)
    return numerator if denominator == 1 else _clean_division(numerator, denominator)


def _clean_division(a: Any, b: Any) -> Any:
    exact = (a % b == 0) if not isinstance(a, torch.Tensor) else bool((a % b == 0).all())
    return floor_division(a, b) if exact else a / b


def floor_division(a: Any, b: Any) -> Any:
    """Python's `//`, also for tensors."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return torch.div(_tensor(a, b), _safe(b), rounding_mode="floor")
    return a // b


def _modulo(a: Any, b: Any) -> Any:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return torch.remainder(_tensor(a, b), _safe(b))
    return a % b


def _tensor(a: Any, like: Any) -> torch.Tensor:
    if isinstance(a, torch.Tensor):
        return a
    return torch.full((), a, dtype=torch.float64 if isinstance(a, float) else torch.int64, device=like.device)


def _safe(b: Any) -> Any:
    """Replaces zero divisors by 1, as masked-off lanes may have any divisor."""
    return torch.where(b == 0, torch.ones_like(b), b) if isinstance(b, torch.Tensor) else b


def _extreme(name: str) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        result = args[0]
        for arg in args[1:]:
            if isinstance(result, torch.Tensor) or isinstance(arg, torch.Tensor):
                like = result if isinstance(result, torch.Tensor) else arg
                result = getattr(torch, name)(_tensor(result, like), _tensor(arg, like))
            else:
                result = max(result, arg) if name == "maximum" else min(result, arg)
        return result

    return function


def _where(condition: Any, yes: Any, no: Any) -> Any:
    if not isinstance(condition, torch.Tensor):
        return yes if condition else no
    return torch.where(condition, _tensor(yes, condition), _tensor(no, condition))


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and exponent < 0:
        return 1 / base**-exponent
    return base**exponent


def _to_int(rounding: str) -> Callable[[Any], Any]:
    scalar: Callable[[Any], Any] = round if rounding == "round" else getattr(math, rounding)

    def function(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return (getattr(torch, rounding)(x) if x.is_floating_point() else x).to(torch.int64)
        return x if isinstance(x, float) and math.isinf(x) else scalar(x)

    return function


def _to_float(x: Any) -> Any:
    return x.to(torch.float64) if isinstance(x, torch.Tensor) else float(x)


def _true_division(a: Any, b: Any) -> Any:
    return _to_float(a) / _to_float(b)


def _sum(*args: Any) -> Any:
    total = args[0]
    for arg in args[1:]:
        total = total + arg
    return total


def _fold(operator: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def function(*args: Any) -> Any:
        result = args[0]
        for arg in args[1:]:
            result = operator(result, arg)
        return result

    return function


def _unary(name: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return getattr(torch, name)(_to_float(x))
        return getattr(math, name)(x)

    return function


def _not(x: Any) -> Any:
    return torch.logical_not(x) if isinstance(x, torch.Tensor) else not x


_FUNCTIONS: Dict[str, Callable[..., Any]] = {
    "Add": _sum,
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": lambda a, b: _to_float(a) ** _to_float(b),
    "FloorDiv": floor_division,
    "CleanDiv": floor_division,
    "ModularIndexing": lambda a, b, c: _modulo(floor_division(a, b), c),
    "Mod": _modulo,
    "PythonMod": _modulo,
    "Min": _extreme("minimum"),
    "Max": _extreme("maximum"),
    "Where": _where,
    "CeilToInt": _to_int("ceil"),
    "FloorToInt": _to_int("floor"),
    "TruncToInt": _to_int("trunc"),
    "RoundToInt": _to_int("round"),
    "ceiling": _to_int("ceil"),
    "floor": _to_int("floor"),
    "TruncToFloat": lambda x: torch.trunc(x) if isinstance(x, torch.Tensor) else float(math.trunc(x)),
    "ToFloat": _to_float,
    "FloatTrueDiv": _true_division,
    "IntTrueDiv": _true_division,
    "Identity": lambda x: x,
    "Abs": abs,
    "LShift": lambda a, b: a * 2**b,
    "RShift": lambda a, b: floor_division(a, 2**b),
    "BitwiseFn_bitwise_and": lambda a, b: a & b,
    "BitwiseFn_bitwise_or": lambda a, b: a | b,
    "BitwiseFn_bitwise_xor": lambda a, b: a ^ b,
    "Equality": lambda a, b: a == b,
    "Unequality": lambda a, b: a != b,
    "StrictLessThan": lambda a, b: a < b,
    "LessThan": lambda a, b: a <= b,
    "StrictGreaterThan": lambda a, b: a > b,
    "GreaterThan": lambda a, b: a >= b,
    "And": _fold(lambda a, b: a & b),
    "Or": _fold(lambda a, b: a | b),
    "Not": _not,
    "BooleanTrue": lambda: True,
    "BooleanFalse": lambda: False,
}
_FUNCTIONS.update(
    ("OpaqueUnaryFn_" + name, _unary(name))
    for name in (
        "sqrt",
        "cos",
        "cosh",
        "sin",
        "sinh",
        "tan",
        "tanh",
        "asin",
        "acos",
        "atan",
        "exp",
        "log",
        "log2",
    )
)


def blocks(sizes: List[int], iteration_loops: int, limit: int) -> List[List[Tuple[int, int]]]:
    """Splits an iteration space into pieces of at most `limit` points, in row-major order.

    Only iteration loops are split, because a reduction needs all of its points at once. Each piece has a
    (start, stop) pair per iteration loop.
    """
    inner = [1]
    for size in reversed(sizes):
        inner.append(inner[-1] * size)
    inner.reverse()  # inner[d] = points of loops d, d+1, ...
    pieces: List[List[Tuple[int, int]]] = [[]]
    for depth in range(iteration_loops):
        size = sizes[depth]
        step = size if inner[depth] <= limit else max(1, limit // max(1, inner[depth + 1]))
        ranges = [(start, min(size, start + step)) for start in range(0, size, max(1, step))]
        pieces = [[*piece, piece_range] for piece in pieces for piece_range in ranges]
    return pieces

"""Shrinks numbers in a script: equal sizes change together, with a limited number of tests.

The first test shrinks all sizes at once. A size that cannot be small is halved and then bisected, because the
smallest failing value (257 rows, not 256) hints at the fault.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from .expressions import frozen
from .tree import Edit, apply, parents

#: Most tests for one size or one float.
MAX_STEPS = 10
#: Sizes up to this one count as small.
SMALL = 3

Number = TypeVar("Number", int, float)
Ask = Callable[[ast.Module], bool]


def shrink_integers(tree: Callable[[], ast.Module], ask: Ask, budget: int, seen: set[float]) -> None:
    """Shrinks the integers; ``tree`` returns the best tree so far, ``ask`` tests a tree and keeps it if
    interesting.

    ``seen`` are values that earlier calls could not shrink; this call adds its own.
    """
    asked = _Counted(ask, budget)

    def left() -> list[int]:
        return sorted({v for v in _values(tree(), int) if v > 1 and v not in seen}, reverse=True)

    sizes = [value for value in left() if value > SMALL]
    if len(sizes) > 1 and not asked(_mapped(tree(), dict.fromkeys(sizes, 2))):
        # Equal minimal sizes did not fail: try small but distinct ones in the same order.
        ranks = {value: SMALL - 1 + n for n, value in enumerate(reversed(sizes))}
        asked(_mapped(tree(), {old: new for old, new in ranks.items() if new < old}))
    for value in [value for value in left() if value > SMALL]:
        _close_in(tree, asked, value)
    for value in [value for value in left() if value > SMALL]:
        # A size that stays large may be needed in only one place.
        for place in range(len(_places(tree(), value))):
            places = _places(tree(), value)
            if place < len(places) and len(places) > 1:
                asked(apply(tree(), [_set(places[place], 2)]))
    for value in (3, 2):
        if value in left():
            asked(_mapped(tree(), {value: value - 1}))
    seen.update(left())


def _close_in(tree: Callable[[], ast.Module], asked: Ask, value: int) -> None:
    """Finds the smallest failing value: tries 2 and 3, then bisects."""
    base = tree()
    for small in (2, 3):
        if asked(_mapped(base, {value: small})):
            return
    low, high, steps = SMALL, value, 0
    while high - low > 1 and steps < MAX_STEPS:
        middle = (low + high) // 2
        steps += 1
        if asked(_mapped(base, {value: middle})):
            high = middle
        else:
            low = middle


def shrink_floats(tree: Callable[[], ast.Module], ask: Ask, budget: int, seen: set[float]) -> None:
    """Replaces long floats by 1.0, all at once or else one by one."""
    asked = _Counted(ask, budget)
    values = [value for value in _values(tree(), float) if len(repr(value)) > 3 and value not in seen]
    seen.update(values)
    if len(values) > 1 and asked(_mapped(tree(), dict.fromkeys(values, 1.0))):
        return
    for value in values:
        if value in _values(tree(), float):
            asked(_mapped(tree(), {value: 1.0}))


class _Counted:
    """Tests until the budget is spent; then returns False."""

    def __init__(self, ask: Ask, budget: int) -> None:
        self._ask = ask
        self._left = budget

    def __call__(self, tree: ast.Module) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        return self._ask(tree)


def _numbers(tree: ast.Module, kind: type) -> Iterator[ast.Constant]:
    fixed = frozen(tree)
    around = parents(tree)
    for node in ast.walk(tree):
        # exact type, because True is an int too
        if isinstance(node, ast.Constant) and type(node.value) is kind and node not in fixed:
            outer = around[node]
            named = isinstance(outer, ast.keyword) and outer.arg in ("dim", "axis", "seed", "dims")
            seed = isinstance(outer, ast.Call) and "seed" in ast.unparse(outer.func)
            if not named and not seed:
                yield node


def _values(tree: ast.Module, kind: type[Number]) -> list[Number]:
    return list(dict.fromkeys(node.value for node in _numbers(tree, kind) if isinstance(node.value, kind)))


def _places(tree: ast.Module, value: int) -> list[ast.Constant]:
    return [node for node in _numbers(tree, int) if node.value == value]


def _mapped(tree: ast.Module, new: Mapping[Number, Number]) -> ast.Module:
    kind = type(next(iter(new)))
    return apply(tree, [_set(n, new[n.value]) for n in _numbers(tree, kind) if n.value in new])  # type: ignore[index]


def _set(node: ast.Constant, value: float) -> Edit:
    return Edit({node: lambda rebuild: ast.Constant(value=value)}, len(repr(node.value)))

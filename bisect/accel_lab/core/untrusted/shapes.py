"""Checks JSON values against shapes: types and parts, written as Python values.

``int``, ``float`` (accepts integers too), ``str``, ``bool`` and ``None`` stand for themselves; a tuple for
any of several shapes; ``[shape]`` for a list; ``{"key": shape, "more?": shape}`` for an object that has at
least these keys (``?``: optional); :class:`Table` for an object with any keys; ``object`` for anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: See the module's docstring.
Shape = Any

_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    None: "null",
}


@dataclass(frozen=True)
class Table:
    """An object with any keys, whose values all have one shape."""

    values: Shape = object


@dataclass(frozen=True)
class Range:
    """An integer from ``least`` to ``most``."""

    least: int = 0
    most: int = 1 << 62


def misfit(value: Any, shape: Shape, place: str = "") -> str:
    """Returns where and how a value does not match a shape, in a few words; empty if it matches."""
    if shape is object:
        return ""
    if isinstance(shape, tuple):
        misfits = [(_name(one), misfit(value, one, place)) for one in shape]
        if any(not wrong for _, wrong in misfits):
            return ""
        # An error within a part is more specific.
        kind = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else ""
        inner = [wrong for name, wrong in misfits if name == kind]
        return inner[0] if inner else _wrong(value, " or ".join(name for name, _ in misfits), place)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _wrong(value, "a list", place)
        return next((w for n, one in enumerate(value) if (w := misfit(one, shape[0], f"{place}[{n}]"))), "")
    if isinstance(shape, Table):
        if not isinstance(value, dict):
            return _wrong(value, "an object", place)
        return next((w for k, one in value.items() if (w := misfit(one, shape.values, _at(place, k)))), "")
    if isinstance(shape, dict):
        return _misfit_object(value, shape, place)
    if isinstance(shape, Range):
        fits = isinstance(value, int) and not isinstance(value, bool) and shape.least <= value <= shape.most
        return "" if fits else _wrong(value, f"a whole number from {shape.least}", place)
    return "" if _is(value, shape) else _wrong(value, _name(shape), place)


def _misfit_object(value: Any, shape: dict[str, Shape], place: str) -> str:
    if not isinstance(value, dict):
        return _wrong(value, "an object", place)
    for key, inner in shape.items():
        name = key.removesuffix("?")
        if name not in value:
            if name != key:
                continue
            return f"{_at(place, name)} is missing"
        if wrong := misfit(value[name], inner, _at(place, name)):
            return wrong
    return ""


def _is(value: Any, kind: Any) -> bool:
    if kind is None or value is None:
        return kind is None and value is None
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _at(place: str, key: str) -> str:
    key = "".join(letter if letter.isprintable() else "?" for letter in str(key)[:40])
    return f"{place}.{key}" if place else key


def _name(shape: Shape) -> str:
    if isinstance(shape, (dict, Table)):
        return "an object"
    if isinstance(shape, list):
        return "a list"
    if shape is object:
        return "anything"
    if isinstance(shape, Range):
        return "a whole number"
    return _NAMES.get(shape, "something else")


def _wrong(value: Any, wanted: str, place: str) -> str:
    kinds: dict[Any, str] = {dict: "an object", list: "a list", **_NAMES}
    got = "null" if value is None else kinds.get(type(value), type(value).__name__)
    return f"{place or 'it'} is {got}, not {wanted}"

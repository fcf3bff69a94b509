"""Formats a graph as comparable lines, one per node, with operator, arguments, shape and dtype."""

from __future__ import annotations

import functools
import os
from typing import Any, List, Tuple

MAX_LINES = 400
_CONTEXT = 12


def name_and_location(function: Any) -> Tuple[str, str]:
    """Returns a function's name and ``file:line``, looking through partials, methods and wrappers."""
    root = function
    while True:
        inner = root.func if isinstance(root, functools.partial) else None
        inner = inner or getattr(root, "__func__", None) or getattr(root, "__wrapped__", None)
        if inner is None:
            break
        root = inner
    name = getattr(root, "__name__", None)
    code = getattr(root, "__code__", None)
    if code is None:  # a callable object
        name = name or type(root).__name__
        call = vars(type(root)).get("__call__")
        code = getattr(getattr(call, "__wrapped__", call), "__code__", None)
    if code is None:
        return str(name), ""
    return str(name), "%s:%d" % (_short(code.co_filename), code.co_firstlineno)


def short_name(function: Any) -> str:
    """Returns a distinctive name of a function; a lambda or a very short name gets its file and line."""
    name, where = name_and_location(function)
    if len(name) > 3 and name != "<lambda>":
        return name
    owner = str(getattr(function, "__qualname__", "")).split(".<locals>", 1)[0]
    prefix = owner + "." if owner and owner != name else ""
    return "%s%s (%s)" % (prefix, name, where.rsplit(os.sep, 1)[-1])


def _short(path: str) -> str:
    cut = path.rfind("site-packages" + os.sep + "torch" + os.sep)
    return path[cut + len("site-packages") + 1 :] if cut >= 0 else path


def state_of(graph: Any) -> List[Any]:
    """Returns a snapshot of a graph to compare with a later one: nodes with target, arguments and value.

    Items are compared by identity: FX replaces ``args`` as a whole when one changes, and comparing symbolic
    sizes would add a guard. The snapshot keeps the objects alive, so that no id is reused.
    """
    if graph is None:
        return []
    return [
        _State((node, node.name, node.target, node.args, node.kwargs, node.meta.get("val")))
        for node in graph.nodes
    ]


class _State(Tuple[Any, ...]):
    def __eq__(self, other: Any) -> bool:
        return all(a is b for a, b in zip(self, other))

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def lines_of(graph: Any) -> List[str]:
    """Returns one line per node of a graph or of a list of nodes."""
    return [line_of(node) for node in getattr(graph, "nodes", graph) or ()]


def line_of(node: Any) -> str:
    """Formats a node as ``%name : float32[2, 3] = target(args)``."""
    value = node.meta.get("val", node.meta.get("example_value"))
    kind = value_text(value)
    left = "%%%s%s" % (node.name, " : " + kind if kind else "")
    if node.op == "placeholder":
        return left + " = placeholder"
    if node.op == "output":
        return "return " + _argument(node.args[0])
    arguments = [_argument(a) for a in node.args]
    arguments += ["%s=%s" % (k, _argument(v)) for k, v in node.kwargs.items()]
    return "%s = %s(%s)" % (left, target_text(node.target), ", ".join(arguments))


def call_line(op: Any, args: Any, kwargs: Any) -> str:
    """Formats a call of an operator as one line."""
    arguments = [_argument(a) for a in args] + ["%s=%s" % (k, _argument(v)) for k, v in kwargs.items()]
    return "%s(%s)" % (target_text(op), ", ".join(arguments))


def last_nodes(graph: Any, count: int) -> List[Any]:
    """Returns the last ``count`` nodes of a graph, in order."""
    found: List[Any] = []
    for node in reversed(graph.nodes) if graph is not None and count > 0 else ():
        found.append(node)
        if len(found) == count:
            break
    return found[::-1]


def target_text(target: Any) -> str:
    if isinstance(target, str):
        return target
    text = str(target)
    if text.startswith("<"):
        module = str(getattr(target, "__module__", "") or "").replace("_operator", "operator")
        text = "%s.%s" % (module, getattr(target, "__name__", type(target).__name__))
    return text


def value_text(value: Any) -> str:
    """Formats a tensor as ``float32[2, 3]``, a tuple by its items, and anything else by ``str``."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return "(%s)" % ", ".join(value_text(v) for v in value[:6])
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None:
        return str(value)[:40]
    text = "%s[%s]" % (str(dtype).replace("torch.", ""), ", ".join(str(n) for n in shape))
    stride = _stride(value)
    return text + (" strides " + stride if stride else "")


def _stride(value: Any) -> str:
    """The strides as text if they are known and not contiguous, else empty."""
    try:
        shape, got = [int(n) for n in value.shape], [int(n) for n in value.stride()]
    except Exception:
        return ""
    want, step = [], 1
    for size in reversed(shape):
        want.append(step)
        step *= max(size, 1)
    odd = [a for a, b, size in zip(got, want[::-1], shape) if size > 1 and a != b]
    return str(got) if odd else ""


def _argument(value: Any) -> str:
    if hasattr(value, "op") and hasattr(value, "target") and hasattr(value, "name"):
        return "%" + str(value.name)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_argument(v) for v in value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (k, _argument(v)) for k, v in value.items())
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return value_text(value)
    if callable(value):
        return target_text(value)
    return str(value)[:80]


def trimmed(before: List[str], after: List[str]) -> Tuple[List[str], List[str]]:
    """Removes common lines at both ends, except some context, and cuts to ``MAX_LINES``."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    return old[:MAX_LINES], new[:MAX_LINES]

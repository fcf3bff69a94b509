"""Describes a captured FX graph as JSON, with operators by names that plain torch resolves.

A graph is *expressible* if a script that imports only torch can run it: it has no user functions, no
operators of other namespaces, and no arguments without a textual form.
"""

from __future__ import annotations

import math
import operator
import sys
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..torch_internals.dispatch import NN_FUNCTIONS
from .values import describe_value

#: Operator namespaces that ``import torch`` itself provides.
PLAIN_NAMESPACES = (
    "aten",
    "prims",
    "prim",
    "quantized",
    "mkldnn",
    "inductor",
    "higher_order",
    "_quantized",
    "rngprims",
)
#: Modules that are searched first for a function, as their names are the usual ones.
_MODULES = (
    "torch",
    "torch.nn.functional",
    "torch.linalg",
    "torch.special",
    "torch.fft",
    "torch.signal.windows",
    "torch.sparse",
    "torch.nested",
    "torch.random",
    "torch.autograd",
    NN_FUNCTIONS,
    "torch.ops.aten",
    "torch.ops.higher_order",
    "operator",
    "math",
)
_ROOTS = ("torch", "operator", "_operator", "math", "builtins")


class NotExpressible(Exception):
    """Raised with the reason why a graph cannot be written as a script of plain torch."""


def qualified_name(target: Any) -> str:
    """Returns a dotted name that resolves to the same object after ``import torch``.

    Raises :class:`NotExpressible` if there is none.
    """
    text = str(target)
    if type(target).__name__ in ("OpOverload", "OpOverloadPacket"):
        if text.split(".")[0] not in PLAIN_NAMESPACES:
            raise NotExpressible("the operator %s is not torch's own" % text)
        return "torch.ops." + text
    name = getattr(target, "__name__", None)
    if not isinstance(name, str):
        raise NotExpressible("%s has no name" % text[:80])
    module = getattr(target, "__module__", None) or ""
    own = module + "." + (getattr(target, "__qualname__", None) or name)
    for candidate in [m + "." + name for m in _MODULES] + [own]:
        if candidate.split(".")[0] in _ROOTS and _resolve(candidate) is target:
            return candidate.replace("_operator.", "operator.", 1) if candidate[:1] == "_" else candidate
    raise NotExpressible("%s is not torch's own" % (own if module else text[:80]))


def _resolve(dotted: str) -> Any:
    parts = dotted.split(".")
    found: Any = sys.modules.get(parts[0])
    for part in parts[1:]:
        try:
            found = getattr(found, part)
        except Exception:
            return None
    return found


def encode(value: Any) -> Any:
    """Encodes an argument as JSON: ``{"ref": node}``, ``{"name": expression}``, ``{"tuple": [...]}``, ...

    Raises :class:`NotExpressible` for tensors and for objects without a name.
    """
    if isinstance(value, torch.fx.Node):
        return {"ref": value.name}
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"name": "float('%s')" % value}
    if isinstance(value, complex):
        return {"name": repr(value)}
    if isinstance(value, torch.Size):
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, tuple) and type(value) is tuple:
        return {"tuple": [encode(item) for item in value]}
    if isinstance(value, list):
        return {"list": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(k), encode(v)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"slice": [encode(value.start), encode(value.stop), encode(value.step)]}
    if value is Ellipsis:
        return {"name": "..."}
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {"name": str(value)}
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return encode(hint(value))
    if isinstance(value, torch.Tensor):
        raise NotExpressible("a tensor is written into the graph as a constant argument")
    if callable(value):
        return {"name": qualified_name(value)}
    raise NotExpressible("an argument is a %s" % type(value).__name__)


def hint(value: Any) -> Any:
    """Returns the hint of a symbolic number; raises :class:`NotExpressible` if it has none."""
    node = getattr(value, "node", None)
    known = getattr(node, "hint", None)
    if known is None:
        raise NotExpressible("a symbol has no hint")
    return known


def describe_graph(gm: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Returns ``(description, attributes)``; tensor attributes of the graph become inputs.

    The description has ``nodes``, ``functions`` (subgraphs passed to operators) and ``sizes``. Raises
    :class:`NotExpressible`.
    """
    functions: Dict[str, Any] = {}
    attributes: Dict[str, Any] = {}
    nodes = _nodes(gm, functions, attributes, nested=False)
    return {"nodes": nodes, "functions": functions, "sizes": _size_sources(gm)}, attributes


def _nodes(gm: Any, functions: Any, attributes: Any, nested: bool) -> List[Dict[str, Any]]:
    nodes: List[Dict[str, Any]] = []
    for node in gm.graph.nodes:
        entry: Dict[str, Any] = {"name": node.name, "op": node.op}
        if node.op == "call_function":
            entry["target"] = qualified_name(node.target)
        elif node.op == "call_method":
            entry["target"] = str(node.target)
        elif node.op == "get_attr":
            value = operator.attrgetter(str(node.target))(gm)
            if isinstance(value, torch.fx.GraphModule):
                entry["op"] = "function"
                functions[node.name] = _nodes(value, functions, attributes, nested=True)
            elif isinstance(value, torch.Tensor) and not nested:
                entry["op"] = "placeholder"
                attributes[node.name] = value
            else:
                raise NotExpressible("the graph reads an attribute that is a %s" % type(value).__name__)
        elif node.op == "call_module":
            raise NotExpressible("the graph calls a module (%s)" % node.target)
        if node.op in ("call_function", "call_method", "output"):
            entry["args"] = encode(tuple(node.args))["tuple"]
            entry["kwargs"] = {key: encode(value) for key, value in node.kwargs.items()}
        entry["meta"] = _meta(node)
        nodes.append(entry)
    return nodes


def _meta(node: Any) -> Optional[Dict[str, Any]]:
    value = node.meta.get("example_value")
    try:
        return describe_value(value, encode)
    except Exception:
        return None  # sizes that depend on data; the values of the real run replace it


def _size_sources(gm: Any) -> Dict[str, Any]:
    """Maps each symbolic placeholder to the ``[tensor placeholder, dimension]`` whose size it is, or None."""
    symbols: Dict[str, Any] = {}
    dimensions: Dict[str, Any] = {}
    for node in gm.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("example_value")
        if isinstance(value, torch.SymInt):
            symbols[node.name] = str(value)
        elif isinstance(value, torch.Tensor):
            for index, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt):
                    dimensions.setdefault(str(size), [node.name, index])
    return {name: dimensions.get(symbol) for name, symbol in symbols.items()}

"""What a function reads beside its arguments: modules and tensors in closures, globals, defaults, its owner.

A training step that is compiled as a function names its model as a global. The gradients and buffers of that
model are results of the compiled region as much as what it returns.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any, Dict, Iterator, List, Set, Tuple

import torch

from .values import leaves

#: Helper functions that are looked into, objects whose attributes are read, and how deep.
_MOST_FUNCTIONS, _MOST_OBJECTS, _DEPTH = 200, 200, 3
#: More leaves than this of one name are data, not state.
_MOST_LEAVES = 2000
#: What every module has; its parameters, buffers and modules among it.
_OF_TORCH = frozenset(vars(torch.nn.Module()))
#: torch's neighbours, Python's own library, and this package: nothing of the script's.
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {
        os.path.dirname(os.path.dirname(torch.__file__)),
        os.path.dirname(os.__file__),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
)


def reached(function: Any) -> List[Tuple[str, Any]]:
    """``(path, module or tensor)`` for all that the function, and the script's own helpers, can read."""
    return list(_Walk().function(function, ""))


def state_of(function: Any) -> Dict[str, torch.Tensor]:
    """``path: tensor`` for what the function can leave results in: lists, attributes, also of modules."""
    found: Dict[str, torch.Tensor] = {}
    for path, value in _Walk(into_modules=True).function(function, ""):
        if isinstance(value, torch.Tensor):
            found.setdefault(path, value)
    return found


class _Walk:
    """One look: each object is told once, under the first path that leads to it.

    ``into_modules``: a module's own attributes are told in its place, without its parameters and buffers.
    """

    def __init__(self, *, into_modules: bool = False) -> None:
        self._into_modules = into_modules
        self._seen: Set[int] = set()
        self._functions = _MOST_FUNCTIONS
        self._objects = _MOST_OBJECTS

    def function(self, function: Any, path: str) -> Iterator[Tuple[str, Any]]:
        """What one function, method, partial or callable object reads."""
        while isinstance(function, functools.partial):
            yield from self._value([function.args, function.keywords], path + "partial", _DEPTH)
            function = function.func
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            yield from self._value(owner, path + "self", _DEPTH)
        if isinstance(function, torch.nn.Module) and self._into_modules:
            yield from self._module(function, path + "self")
            return
        function = getattr(function, "__func__", function)
        if not isinstance(function, types.FunctionType) or self._functions <= 0 or id(function) in self._seen:
            return
        if function.__code__.co_filename.startswith(_LIBRARIES):  # a decorator of torch's, no_grad say
            yield from self.function(getattr(function, "__wrapped__", None), path)
            return
        self._functions -= 1
        self._seen.add(id(function))
        for name, value in self._names(function):
            yield from self._value(value, path + name, _DEPTH)

    @staticmethod
    def _names(function: types.FunctionType) -> Iterator[Tuple[str, Any]]:
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            try:
                yield name, cell.cell_contents
            except ValueError:  # not yet bound
                continue
        for value in function.__defaults__ or ():
            yield "default", value
        for name, value in (function.__kwdefaults__ or {}).items():
            yield name, value
        for name in _global_names(code):
            if name in function.__globals__:
                yield name, function.__globals__[name]

    def _value(self, value: Any, path: str, depth: int) -> Iterator[Tuple[str, Any]]:
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            yield from self.function(value, path + ".")
            return
        if isinstance(value, (type, types.ModuleType)):
            return
        for number, (where, leaf) in enumerate(leaves(value, path)):
            if number >= _MOST_LEAVES:
                return
            yield from self._leaf(leaf, where, depth)

    def _leaf(self, leaf: Any, path: str, depth: int) -> Iterator[Tuple[str, Any]]:
        if id(leaf) in self._seen:
            return
        if isinstance(leaf, torch.nn.Module) and self._into_modules:
            yield from self._module(leaf, path)
        elif isinstance(leaf, (torch.Tensor, torch.nn.Module)):
            self._seen.add(id(leaf))
            yield path, leaf
        elif isinstance(leaf, (types.FunctionType, types.MethodType)):
            yield from self.function(leaf, path + ".")
        elif depth > 0 and self._objects > 0 and _is_the_users(leaf):
            self._objects -= 1
            self._seen.add(id(leaf))
            for name, value in list(vars(leaf).items()):
                yield from self._value(value, f"{path}.{name}", depth - 1)

    def _module(self, module: torch.nn.Module, path: str) -> Iterator[Tuple[str, Any]]:
        """The attributes that are neither parameters nor buffers nor torch's own."""
        for where, part in module.named_modules():
            if id(part) in self._seen or self._objects <= 0:
                continue
            self._objects -= 1
            self._seen.add(id(part))
            for name, value in list(vars(part).items()):
                if name not in _OF_TORCH:
                    yield from self._value(value, f"{path}.{where}.{name}" if where else f"{path}.{name}", 1)


def _is_the_users(value: Any) -> bool:
    """Whether the object's attributes are state of the script: its own classes, and torch's optimizers."""
    kind = type(value)
    if isinstance(value, torch.optim.Optimizer):
        return True
    if kind.__module__ == "builtins" or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    return not isinstance(value, (type, types.ModuleType)) and not file.startswith(_LIBRARIES)


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that the code, or a function defined in it, may look up; attributes are among them."""
    found: Dict[str, None] = {}
    stack = [code]
    while stack:
        current = stack.pop()
        found.update(dict.fromkeys(current.co_names))
        stack += [constant for constant in current.co_consts if isinstance(constant, types.CodeType)]
    return iter(found)

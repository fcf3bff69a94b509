"""Finds the modules and tensors that a function can read from closures, globals, defaults and its owner.

A training step that is compiled as a function often uses its model as a global. The gradients and buffers
of that model are results of the compiled region, like its return value.
"""

from __future__ import annotations

import functools
import os
import sys
import types
from typing import Any, Dict, Iterator, List, Set, Tuple

import torch

from .values import leaves

#: Limits on visited helper functions, on objects whose attributes are read, and on the depth of attributes.
_MOST_FUNCTIONS, _MOST_OBJECTS, _DEPTH = 200, 200, 3
#: Leaves per name; a larger container is data, not state.
_MOST_LEAVES = 2000
#: Attributes of every module, including the dicts of parameters, buffers and submodules.
_OF_TORCH = frozenset(vars(torch.nn.Module()))
#: Folders that hold no code of the script: site-packages, the standard library, this package.
_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {
        os.path.dirname(os.path.dirname(torch.__file__)),
        os.path.dirname(os.__file__),
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    }
)


def reached(function: Any) -> List[Tuple[str, Any]]:
    """Lists ``(path, module or tensor)`` that the function and the script's helper functions can read."""
    return list(_Walk().function(function, ""))


def state_of(function: Any, arguments: Dict[str, Any]) -> Dict[str, torch.Tensor]:
    """Returns ``{path: tensor}`` of the state in which a call can leave results (lists, attributes).

    Includes attributes of modules, but not their parameters and buffers.
    """
    found: Dict[str, torch.Tensor] = {}
    for path, value in _Walk(into_modules=True).call(function, arguments):
        if isinstance(value, torch.Tensor):
            found.setdefault(path, value)
    return found


class _Walk:
    """One traversal; it yields each object once, under the first path found.

    ``into_modules``: yields a module's attributes instead of the module, without parameters and buffers.
    """

    def __init__(self, *, into_modules: bool = False) -> None:
        self._into_modules = into_modules
        self._seen: Set[int] = set()
        self._functions = _MOST_FUNCTIONS
        self._objects = _MOST_OBJECTS

    def call(self, function: Any, arguments: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
        """Yields what one call can read: its arguments, then what the function reads besides."""
        for name, value in arguments.items():
            yield from self._value(value, name, _DEPTH)
        yield from self.function(function, "")

    def function(self, function: Any, path: str) -> Iterator[Tuple[str, Any]]:
        """Yields what a function, method, partial or callable object reads besides its arguments."""
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
        if function.__code__.co_filename.startswith(_LIBRARIES):  # a library's decorator, such as no_grad
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
        """Yields attributes that are neither parameters nor buffers nor torch's own."""
        for where, part in module.named_modules():
            if id(part) in self._seen or self._objects <= 0:
                continue
            self._objects -= 1
            self._seen.add(id(part))
            for name, value in list(vars(part).items()):
                if name not in _OF_TORCH:
                    yield from self._value(value, f"{path}.{where}.{name}" if where else f"{path}.{name}", 1)


def _is_the_users(value: Any) -> bool:
    """Whether an object's attributes are state of the script: its own classes and torch's optimizers."""
    kind = type(value)
    if isinstance(value, torch.optim.Optimizer):
        return True
    if kind.__module__ == "builtins" or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    return not isinstance(value, (type, types.ModuleType)) and not file.startswith(_LIBRARIES)


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that the code and its nested functions may look up; includes names of attributes."""
    found: Dict[str, None] = {}
    stack = [code]
    while stack:
        current = stack.pop()
        found.update(dict.fromkeys(current.co_names))
        stack += [constant for constant in current.co_consts if isinstance(constant, types.CodeType)]
    return iter(found)

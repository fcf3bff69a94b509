"""Handles modules in the script's folder that shadow modules which the lab has already imported.

Python searches the script's folder and PYTHONPATH before the standard library: with ``json.py`` in the
script's folder, ``import json`` gets that file, also in torch. The lab's own imports must not change this.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, Dict, FrozenSet, Iterator, List

_SUFFIXES = (".py", ".pyc", *EXTENSION_SUFFIXES)
#: Modules of the lab and the interpreter, which are never shadowed.
_NEVER = frozenset({"__main__", "__mp_main__", "accel_lab_child"})
#: Kept unless shadowed: the interpreter joins threads by ``threading``, and ``random`` is already seeded.
_KEPT = frozenset({"threading", "random"})
#: Modules of this package that run as programs.
_PROGRAMS = frozenset(
    {
        *("__init__", "__main__", "server", "lender", "view", "doctor", "torch_files", "container_init"),
        "collect_env",
    }
)

#: Modules that Python had imported before the lab; empty if not known.
at_start: FrozenSet[str] = frozenset()


def shadowed(folders: Any, names: Any) -> List[str]:
    """Returns the top-level ``names`` that exist as a module or package in one of the folders."""
    found = set()
    for folder in folders:
        try:
            entries = os.listdir(folder)
        except OSError:
            continue
        for entry in entries:
            name = entry.split(".", 1)[0]
            if name not in names:
                continue
            is_module = entry[len(name) :] in _SUFFIXES
            if is_module or os.path.isfile(os.path.join(folder, entry, "__init__.py")):
                found.add(name)
    return sorted(found)


def folders_of(program: Any) -> List[str]:
    """Returns the folders searched before the standard library: the script's (or current), PYTHONPATH."""
    first = os.path.dirname(os.path.realpath(program["path"])) if program["path"] else os.getcwd()
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [first, *(os.path.abspath(name) for name in more if name)]


def shadowed_imports(program: Any) -> List[str]:
    """Returns modules that the lab has imported but that the program's own files would shadow."""
    if not at_start:
        return []
    ours = {name.partition(".")[0] for name in sys.modules if name not in at_start} - _NEVER
    return shadowed(folders_of(program), ours - at_start)


class HiddenImports:
    """Hides the lab's imports from a program that has modules of the same names."""

    def __init__(self, program: Any) -> None:
        self.names = shadowed_imports(program)
        self._folders = folders_of(program)
        self._modules: Dict[str, Any] = {}
        if self.names:
            self._take_out()

    def _take_out(self) -> None:
        """Hides all of the lab's imports, as a module that uses a shadowed one must be imported again too."""
        kept = _NEVER | (_KEPT - frozenset(self.names))
        for name in list(sys.modules):
            if name not in at_start and name.partition(".")[0] not in kept:
                self._modules[name] = sys.modules.pop(name)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restores the standard library's modules inside the context, as the lab's code needs them."""
        if not self.names:
            yield
            return
        theirs = {name: module for name, module in sys.modules.items() if self._is_shadowed(name)}
        path = list(sys.path)
        for name in theirs:
            del sys.modules[name]
        sys.modules.update({name: one for name, one in self._modules.items() if self._is_shadowed(name)})
        sys.path[:] = [name for name in path if os.path.abspath(name or ".") not in self._folders]
        try:
            self._import_all()
            yield
        finally:
            for name in [name for name in sys.modules if self._is_shadowed(name)]:
                self._modules[name] = sys.modules.pop(name)
            sys.modules.update(theirs)
            sys.path[:] = path

    def _is_shadowed(self, name: str) -> bool:
        return name.partition(".")[0] in self.names

    @staticmethod
    def _import_all() -> None:
        """Imports this whole package now; later imports would find the program's modules."""
        prefix = __name__.rpartition(".")[0] + "."
        folder = os.path.dirname(os.path.abspath(__file__))
        for module in pkgutil.walk_packages([folder], prefix):
            if module.name[len(prefix) :] in _PROGRAMS:
                continue
            try:
                importlib.import_module(module.name)
            except Exception:
                continue  # this torch lacks a part; a rung that needs the module reports it

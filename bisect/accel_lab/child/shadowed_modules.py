"""Modules beside the script that plain Python would import in the place of those that the lab brought in.

Python looks in the script's folder and in PYTHONPATH before its own library, so ``json.py`` beside a script
is what ``import json`` means there, to torch too. What the lab has imported by then must not stand in its
way.
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
#: The lab's own, and the interpreter's.
_NEVER = frozenset({"__main__", "__mp_main__", "accel_lab_child"})
#: Kept unless they are shadowed themselves: the interpreter ends threads by the one, the other is seeded.
_KEPT = frozenset({"threading", "random"})
#: Entries of this package that are programs of their own.
_PROGRAMS = frozenset(
    {
        *("__init__", "__main__", "server", "lender", "view", "doctor", "torch_files", "container_init"),
        "collect_env",
    }
)

#: What Python itself had imported before anything of the lab; empty where that is not known.
at_start: FrozenSet[str] = frozenset()


def shadowed(folders: Any, names: Any) -> List[str]:
    """Those of the top-level names that a module or a package in one of the folders has too."""
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
    """Where Python looks before its own library: the script's folder, or the current one, and PYTHONPATH."""
    first = os.path.dirname(os.path.realpath(program["path"])) if program["path"] else os.getcwd()
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [first, *(os.path.abspath(name) for name in more if name)]


def in_the_way(program: Any) -> List[str]:
    """The modules that are imported here and would be the program's own under plain Python."""
    if not at_start:
        return []
    ours = {name.partition(".")[0] for name in sys.modules if name not in at_start} - _NEVER
    return shadowed(folders_of(program), ours - at_start)


class Own:
    """The lab's own imports, taken out of the program's sight while it has modules of the same names."""

    def __init__(self, program: Any) -> None:
        self.names = in_the_way(program)
        self._folders = folders_of(program)
        self._modules: Dict[str, Any] = {}
        if self.names:
            self._take_out()

    def _take_out(self) -> None:
        """All of them, not those alone: what imported the library's ``types`` would not be imported again."""
        kept = _NEVER | (_KEPT - frozenset(self.names))
        for name in list(sys.modules):
            if name not in at_start and name.partition(".")[0] not in kept:
                self._modules[name] = sys.modules.pop(name)

    @contextmanager
    def back(self) -> Iterator[None]:
        """Import with the library's own modules, as the lab's code needs them."""
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
        """All of this package now: later its imports would find the program's modules."""
        prefix = __name__.rpartition(".")[0] + "."
        folder = os.path.dirname(os.path.abspath(__file__))
        for module in pkgutil.walk_packages([folder], prefix):
            if module.name[len(prefix) :] in _PROGRAMS:
                continue
            try:
                importlib.import_module(module.name)
            except Exception:
                continue  # one that this torch lacks the parts for is asked for by its rung, or never

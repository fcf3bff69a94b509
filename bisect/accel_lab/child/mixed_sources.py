"""Replaces the sources of torch modules on import, by texts that the lab mixed from two releases.

The import hook is installed before the program imports torch. A replaced module is compiled under the path of
the original file, so that code which inspects paths sees no difference. The hook can also note which
module-level functions and methods run, their nested functions included, and whether they run only while torch
is being imported.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import shutil
import sys
from types import FrameType
from typing import Any, Dict, List, Optional, Set

_NOTE = "_accel_lab_executed"


class MixedSources(importlib.abc.MetaPathFinder):
    """The import hook. ``served`` maps module names to files with the new text, ``watched`` to functions."""

    def __init__(self, served: Dict[str, str], watched: Dict[str, List[str]]) -> None:
        self._served = served
        self._watched = {name: frozenset(keys) for name, keys in watched.items()}
        self._loaded: Set[str] = set()
        self._executed: Set[str] = set()
        self._at_import: Set[str] = set()

    def install(self) -> None:
        """Installs the hook."""
        setattr(builtins, _NOTE, self._note)
        sys.meta_path.insert(0, self)

    def facts(self) -> Dict[str, Any]:
        """Returns ``loaded`` (served or watched modules), and ``module::function`` of what ran.

        ``at_import`` are those that ran only while a module of torch was being imported, ``executed`` the
        others.
        """
        return {
            "loaded": sorted(self._loaded),
            "executed": sorted(self._executed),
            "at_import": sorted(self._at_import - self._executed),
        }

    def _note(self, name: str) -> None:
        if name in self._executed:
            return
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            at_import = frame.f_code.co_name == "<module>"
            if at_import and str(frame.f_globals.get("__name__")).split(".")[0] == "torch":
                self._at_import.add(name)
                return
            frame = frame.f_back
        self._executed.add(name)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Returns the module's spec with a loader for the new text; None for a module not concerned."""
        if fullname not in self._served and fullname not in self._watched:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        served, watched = self._served.get(fullname), self._watched.get(fullname, frozenset())
        if spec is None and served is not None and path:
            spec = self._new(fullname, next(iter(path)))
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            return None
        spec.loader = _Loader(fullname, spec.origin, served, watched)
        self._loaded.add(fullname)
        return spec

    def _new(self, fullname: str, folder: str) -> Any:
        """Returns the spec of a served module that this release lacks; a package if others are below it."""
        place = os.path.join(folder, fullname.rpartition(".")[2])
        if any(name.startswith(fullname + ".") for name in self._served):
            origin = os.path.join(place, "__init__.py")
            return importlib.util.spec_from_file_location(
                fullname, origin, submodule_search_locations=[place]
            )
        return importlib.util.spec_from_file_location(fullname, place + ".py")


def lay_out(headers: Dict[str, str], folder: str) -> str:
    """Copies mixed headers below ``folder``, as compilers look for them; returns the folder to include from.

    ``headers`` maps paths of an installed torch (``torch/include/...``) to files with the new text.
    """
    root = os.path.join(folder, "mixed_headers")
    for path, text_from in headers.items():
        place = os.path.join(root, *path.split("/")[2:])
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.copyfile(text_from, place)
    return root


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, served: Optional[str], watched: Any) -> None:
        super().__init__(fullname, path)
        self._text_from = served
        self._watched = watched

    def get_code(self, fullname: str) -> Any:
        place = self._text_from or self.path
        with open(place, "rb") as stream:
            source = importlib.util.decode_source(stream.read())
        tree = ast.parse(source, self.path)
        if self._watched:
            _note_calls(tree, fullname, self._watched)
        if self._text_from:
            # ``inspect.getsource`` uses linecache, which never re-checks an entry whose time is None.
            lines = source.splitlines(True)
            linecache.cache[self.path] = (len(source), None, lines, self.path)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> Optional[str]:
        """Returns the text that was compiled."""
        if self._text_from is None:
            return super().get_source(fullname)
        with open(self._text_from, "rb") as stream:
            return importlib.util.decode_source(stream.read())


def _note_calls(tree: ast.Module, module: str, watched: Any) -> None:
    """Inserts a call that notes a watched function's name at its start, and at that of its nested ones."""
    for owner, body in [
        ("", tree.body),
        *((n.name + ".", n.body) for n in tree.body if type(n) is ast.ClassDef),
    ]:
        seen: Dict[str, int] = {}
        for node in body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            seen[node.name] = seen.get(node.name, 0) + 1
            key = owner + node.name + ("" if seen[node.name] == 1 else "#%d" % seen[node.name])
            if key not in watched:
                continue
            for part in list(ast.walk(node)):
                if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    _note_call(part, module + "::" + key)


def _note_call(node: Any, name: str) -> None:
    note = ast.parse("%s(%r)" % (_NOTE, name)).body[0]
    for part in ast.walk(note):
        if hasattr(part, "lineno"):
            ast.copy_location(part, node.body[0])
    docstring = isinstance(node.body[0], ast.Expr) and isinstance(
        getattr(node.body[0], "value", None), ast.Constant
    )
    node.body.insert(1 if docstring else 0, note)

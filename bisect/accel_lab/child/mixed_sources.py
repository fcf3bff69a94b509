"""Replaces the sources of torch modules on import, by texts that the lab mixed from two releases.

The import hook is installed before the program imports torch. A replaced module is compiled under the path of
the original file, so that code which inspects paths sees no difference. The hook can also note which
module-level functions and methods run.
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
from typing import Any, Dict, List, Optional, Set

_NOTE = "_accel_lab_executed"


class MixedSources(importlib.abc.MetaPathFinder):
    """The import hook. ``served`` maps module names to files with the new text, ``watched`` to functions."""

    def __init__(self, served: Dict[str, str], watched: Dict[str, List[str]]) -> None:
        self._served = served
        self._watched = {name: frozenset(keys) for name, keys in watched.items()}
        self._loaded: Set[str] = set()
        self._executed: Set[str] = set()

    def install(self) -> None:
        """Installs the hook."""
        setattr(builtins, _NOTE, self._executed.add)
        sys.meta_path.insert(0, self)

    def facts(self) -> Dict[str, Any]:
        """Returns ``loaded`` (served or watched modules) and ``executed`` (``module::function`` that ran)."""
        return {"loaded": sorted(self._loaded), "executed": sorted(self._executed)}

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
    """Inserts a call that notes the function's name at the start of each watched function."""
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
            note = ast.parse("%s(%r)" % (_NOTE, module + "::" + key)).body[0]
            ast.copy_location(note, node.body[0])
            for part in ast.walk(note):
                if hasattr(part, "lineno"):
                    ast.copy_location(part, node.body[0])
            docstring = isinstance(node.body[0], ast.Expr) and isinstance(
                getattr(node.body[0], "value", None), ast.Constant
            )
            node.body.insert(1 if docstring else 0, note)

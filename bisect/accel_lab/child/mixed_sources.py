"""Serves other sources for modules of torch: texts that the lab mixed from two releases.

An import hook, put in place before the program imports torch. The text of a served module is compiled
under the path of the file that it stands for, so that what looks at paths sees no difference. The hook can
also note which functions run, by the names under which a module's body or a class defines them.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import sys
from typing import Any, Dict, List, Optional, Set

_NOTE = "_accel_lab_executed"


class MixedSources(importlib.abc.MetaPathFinder):
    """``served``: from module names to files with their text. ``watched``: from module names to functions."""

    def __init__(self, served: Dict[str, str], watched: Dict[str, List[str]]) -> None:
        self._served = served
        self._watched = {name: frozenset(keys) for name, keys in watched.items()}
        self._loaded: Set[str] = set()
        self._executed: Set[str] = set()

    def install(self) -> None:
        """Serve from now on."""
        setattr(builtins, _NOTE, self._executed.add)
        sys.meta_path.insert(0, self)

    def facts(self) -> Dict[str, Any]:
        """``loaded``: modules that were served or watched. ``executed``: ``module::function`` that ran."""
        return {"loaded": sorted(self._loaded), "executed": sorted(self._executed)}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """The module's own spec, with a loader that compiles the other text."""
        if fullname not in self._served and fullname not in self._watched:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not spec.origin or not spec.origin.endswith(".py"):
            return None
        served, watched = self._served.get(fullname), self._watched.get(fullname, frozenset())
        spec.loader = _Loader(fullname, spec.origin, served, watched)
        self._loaded.add(fullname)
        return spec


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
            # ``inspect.getsource`` reads what linecache holds; an entry without a time is never checked.
            lines = source.splitlines(True)
            linecache.cache[self.path] = (len(source), None, lines, self.path)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> Optional[str]:
        """The text that was compiled."""
        if self._text_from is None:
            return super().get_source(fullname)
        with open(self._text_from, "rb") as stream:
            return importlib.util.decode_source(stream.read())


def _note_calls(tree: ast.Module, module: str, watched: Any) -> None:
    """Put a note of its name at the beginning of each watched function."""
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

"""What travels with a piece: definitions and imports that it needs and that the other release lacks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from .pieces import Versions

#: From the path of a file to the keys of its pieces.
Chosen = Mapping[str, frozenset[str]]
ROUNDS = 6


def closure(chosen: Chosen, module: Callable[[str], Versions | None]) -> dict[str, frozenset[str]]:
    """The chosen pieces with all that they need.

    A name that a piece uses and that the base lacks is taken from the other version of its file. A name that
    an import wants, or an attribute of an imported module, is taken from the file that it comes from.
    ``module`` gives both versions of a file, or None where it is the same in both or is in one of them only.
    """
    found = {path: set(keys) for path, keys in chosen.items()}
    for _ in range(ROUNDS):
        before = {path: frozenset(keys) for path, keys in found.items()}
        for path, keys in before.items():
            versions = module(path)
            if versions is None:
                continue
            for key in keys:
                for where, needed in _needs(versions, key, module):
                    found.setdefault(where, set()).add(needed)
        if before == {path: frozenset(keys) for path, keys in found.items()}:
            break
    return {path: frozenset(keys) for path, keys in found.items()}


def _needs(
    versions: Versions, key: str, module: Callable[[str], Versions | None]
) -> Iterable[tuple[str, str]]:
    piece = versions.other.by_key.get(key)
    if piece is None:
        return
    base, other = versions.base.binds, versions.other.binds
    for name in piece.uses:
        if name in other and name not in base:
            yield from ((versions.path, needed) for needed in other[name] if needed in versions.added)
    for place, name in _wanted_elsewhere(piece.text, versions.other.source, versions.path):
        there = module(place)
        if there is None or name in there.base.binds:
            continue
        yield from ((place, needed) for needed in there.other.binds.get(name, ()) if needed in there.added)


def _wanted_elsewhere(text: str, source: str, path: str) -> set[tuple[str, str]]:
    """``(file, name)`` for what a piece imports, and for attributes of modules that its file imports."""
    tree = _parsed(text)
    if tree is None:
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for place in files_of(_absolute(node, path)):
                found |= {(place, alias.name) for alias in node.names}
    aliases = _module_aliases(source, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            found |= {(place, node.attr) for place in files_of(aliases[node.value.id])}
    return found


@lru_cache(maxsize=256)
def _module_aliases(source: str, path: str) -> Mapping[str, str]:
    """From a name in the file to the module that it may be: ``config`` to ``torch._inductor.config``."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom):
            owner = _absolute(node, path)
            found.update({alias.asname or alias.name: f"{owner}.{alias.name}" for alias in node.names})
    return found


def _parsed(text: str) -> ast.AST | None:
    """A piece's tree; a member of a class is indented, so it is put below an ``if``."""
    for source in (text, f"if True:\n{text}"):
        try:
            return ast.parse(source)
        except SyntaxError:
            continue
    return None


def _absolute(node: ast.ImportFrom, path: str) -> str:
    parts = module_of(path).split(".")
    package = parts if path.endswith("/__init__.py") else parts[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


def module_of(path: str) -> str:
    """``torch/_refs/__init__.py`` is ``torch._refs``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def files_of(module: str) -> tuple[str, str]:
    """The two files that a module may be."""
    place = module.replace(".", "/")
    return f"{place}.py", f"{place}/__init__.py"

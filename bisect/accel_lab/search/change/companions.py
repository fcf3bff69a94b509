"""Finds the pieces that must be exchanged along with a piece: those it needs and the other release lacks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from .calls import Call, calls_of, fitted, parsed, signature_of
from .pieces import Piece, Versions

#: Maps the path of a file to the keys of its pieces.
Chosen = Mapping[str, frozenset[str]]
#: A piece: the path of its file and its key.
PieceId = tuple[str, str]
#: A name that more pieces define or call is ambiguous.
MOST_MEANT = 12
#: An import, at any depth.
_IMPORT = re.compile(r"^[ ]*((?:from[ ]+\S+[ ]+)?import[ ]+(?:\([^)]*\)|(?:\\\n|[^\n])*))", re.MULTILINE)


class Names:
    """Index of the names in changed files: who defines a member, who calls a function.

    ``files`` are both versions of each file, all with the same base. A name is *known* if the base has it.
    """

    def __init__(self, files: Iterable[Versions]) -> None:
        self._known: set[str] = set()
        self._members: dict[str, list[PieceId]] = {}
        self._functions: dict[str, list[tuple[PieceId, Piece, Piece]]] = {}
        self._callers: dict[str, list[tuple[PieceId, str]]] = {}
        self._statements: dict[PieceId, list[PieceId]] = {}
        for versions in files:
            self._read(versions)

    def _read(self, versions: Versions) -> None:
        base, other = versions.base.by_key, versions.other.by_key
        self._known.update(re.findall(r"\.(\w+)\b", versions.base.source))
        self._known.update(last_name(key) for key, piece in base.items() if piece.owner)
        for key in versions.changed:
            where, one, two = (versions.path, key), base.get(key), other.get(key)
            if two is not None and two.owner:
                for name in {last_name(key), *_stored(two.text)} if one is None else _stored(two.text):
                    self._members.setdefault(name, []).append(where)
            if one is not None:
                for name in {call.name for call in calls_of(one.text)}:
                    self._callers.setdefault(name, []).append((where, one.text))
                for name in frozenset[str]() if one.is_function else _names(one.text):
                    self._statements.setdefault((versions.path, _member(one.owner, name)), []).append(where)
                if two is not None and one.is_function:
                    self._functions.setdefault(last_name(key), []).append((where, one, two))

    def wanted(self, where: PieceId, text: str) -> Iterable[PieceId]:
        """Yields the pieces that a piece with this text needs, other than module-level names."""
        path, key = where
        for name in _attributes(text):
            if name in self._members and name not in self._known:
                yield from self._few(self._members[name])
        owner = key.rpartition(".")[0]
        for name in _attributes(text) | _names(text) if owner else frozenset[str]():
            own = (path, _member(owner, name))
            yield from (one for one in self._members.get(name, ()) if one == own)
        for call in calls_of(text):
            meant = self._functions.get(call.name, [])
            method = f"{call.owner}.{call.name}"
            meant = [row for row in meant if row[0][1] == method] or meant
            yield from self._few(
                [one for one, base, other in meant if not _takes(base, call) and _takes(other, call)]
            )
        yield from self._left_behind(where, text)

    def without(self, where: PieceId) -> Iterable[PieceId]:
        """Yields statements of the same class or module that use a removed piece, such as a method table."""
        path, key = where
        yield from self._few(self._statements.get((path, key.partition("#")[0]), []))

    def _left_behind(self, where: PieceId, text: str) -> Iterable[PieceId]:
        """Yields callers that use the base's signature of a function, which it no longer accepts."""
        own = next((row for row in self._functions.get(last_name(where[1]), ()) if row[0] == where), None)
        if own is None:
            return
        base = own[1]
        new = signature_of(fitted(base.text, text, bool(base.owner)), bool(base.owner))
        if new is None or new == signature_of(base.text, bool(base.owner)):
            return
        name = last_name(where[1])
        callers = [
            caller
            for caller, said in self._callers.get(name, ())
            if any(
                call.name == name and _takes(base, call) and not new.takes(call) for call in calls_of(said)
            )
        ]
        yield from self._few(callers)

    @staticmethod
    def _few(places: list[PieceId]) -> list[PieceId]:
        """Keeps only the ``__init__`` that sets an attribute, if any; too many places count as none."""
        first = [where for where in places if last_name(where[1]) == "__init__"] or places
        return first if len(first) <= MOST_MEANT else []


def closure(
    chosen: Chosen,
    module: Callable[[str], Versions | None],
    names: Names | None = None,
    instead: Mapping[PieceId, str] | None = None,
) -> dict[str, frozenset[str]]:
    """Returns the chosen pieces with everything that they need.

    A name that a piece uses and the base lacks is taken from the other version of its file. An imported name,
    or an attribute of an imported module, is taken from the file that defines it. With ``names``, so are
    members of classes, and functions that are called with a new signature. ``module`` returns both versions
    of a file, or None if they are equal or do not exist. Of a module that the base lacks, the names that are
    imported are taken. ``instead`` holds the texts of pieces that are taken in part.
    """
    found: dict[str, set[str]] = {path: set() for path in chosen}
    waiting = [(path, key) for path, keys in chosen.items() for key in keys]
    while waiting:
        path, key = waiting.pop()
        if key in found.setdefault(path, set()):
            continue
        found[path].add(key)
        versions = module(path)
        if versions is None:
            continue
        piece = versions.other.by_key.get(key)
        if piece is not None:
            text = (instead or {}).get((path, key), piece.text)
            waiting += _needs(versions, text, module)
            if names is not None:
                waiting += names.wanted((path, key), text)
            for where in _new_modules(text, path, module):
                found.setdefault(where, set())
        elif names is not None:
            waiting += names.without((path, key))
    return {path: frozenset(keys) for path, keys in found.items()}


def _needs(
    versions: Versions, text: str, module: Callable[[str], Versions | None]
) -> Iterable[tuple[str, str]]:
    base, other = versions.base.binds, versions.other.binds
    for name in _names(text):
        if name in other and name not in base:
            yield from ((versions.path, needed) for needed in other[name] if versions.brings(needed))
    for place, name in _wanted_elsewhere(text, versions.other.source, versions.path):
        there = module(place)
        if there is None or there.surely_binds(name) or name in there.base.binds:
            continue
        yield from ((place, needed) for needed in there.other.binds.get(name, ()) if there.brings(needed))


def _new_modules(text: str, path: str, module: Callable[[str], Versions | None]) -> Iterable[str]:
    """Yields the files of modules that a piece imports and the base lacks, with the packages they are in."""
    for name in _imported(text, path):
        for place in files_of(name):
            versions = module(place)
            if versions is not None and not versions.base.source:
                yield place


@lru_cache(maxsize=8192)
def _imported(text: str, path: str) -> frozenset[str]:
    """Returns what a piece imports as names of modules, with their packages; some are no modules."""
    tree = parsed(text) if "import" in text else None
    names: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            owner = _absolute(node, path)
            names |= {f"{owner}.{alias.name}" for alias in node.names}
    parts = (name.split(".") for name in names)
    return frozenset(".".join(one[:end]) for one in parts for end in range(1, len(one) + 1))


@lru_cache(maxsize=8192)
def _wanted_elsewhere(text: str, source: str, path: str) -> frozenset[tuple[str, str]]:
    """Returns ``(file, name)`` for a piece's imports and for attributes of its file's imported modules."""
    tree = parsed(text)
    if tree is None:
        return frozenset()
    found: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for place in files_of(_absolute(node, path)):
                found |= {(place, alias.name) for alias in node.names}
    aliases = _module_aliases(source, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            found |= {(place, node.attr) for place in files_of(aliases[node.value.id])}
    return frozenset(found)


@lru_cache(maxsize=256)
def _module_aliases(source: str, path: str) -> Mapping[str, str]:
    """Maps names in the file to modules that they may be: ``config`` to ``torch._inductor.config``."""
    found = {}
    for text in _IMPORT.findall(source):  # parsing the whole file would take most of the search's time
        try:
            nodes = ast.parse(text).body
        except SyntaxError:
            continue  # a line of a string that looks like an import
        for node in nodes:
            if isinstance(node, ast.Import):
                found.update({alias.asname: alias.name for alias in node.names if alias.asname})
            elif isinstance(node, ast.ImportFrom):
                owner = _absolute(node, path)
                found.update({alias.asname or alias.name: f"{owner}.{alias.name}" for alias in node.names})
    return found


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    tree = parsed(text)
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) if tree else frozenset()


@lru_cache(maxsize=4096)
def _attributes(text: str) -> frozenset[str]:
    tree = parsed(text)
    return frozenset(n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)) if tree else frozenset()


@lru_cache(maxsize=4096)
def _stored(text: str) -> frozenset[str]:
    tree = parsed(text)
    if tree is None:
        return frozenset()
    nodes = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute))
    return frozenset(n.attr for n in nodes if isinstance(n.ctx, ast.Store))


def _takes(piece: Piece, call: Call) -> bool:
    signature = signature_of(piece.text, bool(piece.owner))
    return signature is not None and signature.takes(call)


def _member(owner: str, name: str) -> str:
    """Returns the key of a name in a class, or at module level if ``owner`` is empty."""
    return f"{owner}.{name}" if owner else name


def last_name(key: str) -> str:
    """Returns ``f`` for ``Class.f#2``."""
    return key.partition("#")[0].rpartition(".")[2]


def _absolute(node: ast.ImportFrom, path: str) -> str:
    parts = module_of(path).split(".")
    package = parts if path.endswith("/__init__.py") else parts[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


def module_of(path: str) -> str:
    """Returns the module of a file: ``torch/_refs/__init__.py`` is ``torch._refs``."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def files_of(module: str) -> tuple[str, str]:
    """Returns the two paths at which a module may be: ``name.py`` and ``name/__init__.py``."""
    place = module.replace(".", "/")
    return f"{place}.py", f"{place}/__init__.py"

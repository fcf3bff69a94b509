"""Splits Python sources into pieces that can be mixed: top-level statements, methods, class-body statements.

Every choice of pieces from two versions of a module is again a module: a piece of one version replaces the
piece with the same key in the other. Comments and blank lines before a statement belong to it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .shapes import shape_of

#: Longer keys are cut; an added number keeps them distinct.
_KEY_LENGTH = 120
#: The key of the only piece of a file that is not Python.
WHOLE = "*"
#: A definition or an assignment at the start of a line.
_BOUND = re.compile(r"^(?:(?:async[ ]+)?def|class)[ ]+(\w+)|^(\w+)[ ]*[:=]", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A statement of one version of a module.

    ``key`` is its name in the module: ``f``, ``Class.method``, or ``Class`` for the first line of a class
    that is split. ``text`` is its source with the comments before it. ``owner`` is the class of a member.
    ``is_function``: its body runs only when called. ``inert``: an import, or a definition without a
    decorator. ``binds`` are the names that it binds when the module is imported.
    """

    key: str
    text: str
    owner: str = ""
    is_function: bool = False
    inert: bool = False
    is_import: bool = False
    binds: frozenset[str] = frozenset()

    @cached_property
    def shape(self) -> str:
        """The normalised text (:func:`shape_of`), computed only if two texts differ."""
        return shape_of(self.text)


@dataclass(frozen=True)
class Module:
    """One version of a module."""

    source: str
    pieces: tuple[Piece, ...] = field(repr=False)

    @classmethod
    def of(cls, source: str, tree: ast.Module, split: Collection[str]) -> Module:
        """Builds a module. Classes in ``split``, which both versions have, are split into members."""
        return cls(source, tuple(_pieces(source.splitlines(), tree, frozenset(split))))

    @cached_property
    def by_key(self) -> Mapping[str, Piece]:
        """Maps keys to pieces, in source order."""
        return {piece.key: piece for piece in self.pieces}

    @cached_property
    def binds(self) -> Mapping[str, tuple[str, ...]]:
        """Maps a module-level name to the keys of the pieces that bind it."""
        found: dict[str, list[str]] = {}
        for piece in self.pieces:
            for name in piece.binds:
                found.setdefault(name, []).append(piece.key)
        return {name: tuple(keys) for name, keys in found.items()}


class _Pair:
    """Two texts. They are parsed when their pieces are asked for, and no tree is kept.

    The trees of all files that differ between two releases are gigabytes, and most files are only looked at.
    """

    def __init__(self, base: str, other: str, is_python: bool) -> None:
        self.sources = base, other
        self.is_python = is_python

    @cached_property
    def shown(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names that each text binds at the start of a line, found without its AST."""
        one, two = (
            frozenset(name for pair in _BOUND.findall(text) for name in pair) for text in self.sources
        )
        return one, two

    @cached_property
    def modules(self) -> tuple[Module, Module]:
        """Both as modules; a class is split where both have it. Without pieces where one does not parse."""
        base, other = self.sources
        if not self.is_python:
            return _whole(base), _whole(other)
        try:
            trees = ast.parse(base), ast.parse(other)
        except (SyntaxError, ValueError, RecursionError):
            return Module(base, ()), Module(other, ())
        common = _classes(trees[0]) & _classes(trees[1])
        return Module.of(base, trees[0], common), Module.of(other, trees[1], common)


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Two versions of one module: ``base`` is changed, ``other`` supplies the changes.

    The text of a module that only one release has is empty in the other one.
    """

    path: str
    pair: _Pair = field(repr=False)
    turned: bool = False

    @classmethod
    def of(cls, path: str, base: str, other: str) -> Versions:
        """Splits both texts into pieces; nothing can be mixed if one of them does not parse.

        A file that is not Python, such as a header of the code generator, is one piece.
        """
        return cls(path=path, pair=_Pair(base, other, is_python=is_python(path)))

    def reversed(self) -> Versions:
        """Returns the same two versions with base and other swapped."""
        return Versions(path=self.path, pair=self.pair, turned=not self.turned)

    @property
    def base(self) -> Module:
        """The version that is changed."""
        return self.pair.modules[self.turned]

    @property
    def other(self) -> Module:
        """The version that supplies the changes."""
        return self.pair.modules[not self.turned]

    def surely_binds(self, name: str) -> bool:
        """Whether a text search already shows that the base's top level binds this name."""
        return name in self.pair.shown[self.turned]

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Keys of the pieces that differ, in the base's order; those only in the other version are last."""
        base, other = self.base.by_key, self.other.by_key
        found = [key for key, one in base.items() if key not in other or _differ(one, other[key])]
        return (*found, *(key for key in other if key not in base))

    @property
    def added(self) -> frozenset[str]:
        """Keys that only the other version has."""
        return frozenset(self.other.by_key) - frozenset(self.base.by_key)

    def brings(self, key: str) -> bool:
        """Whether a piece of the other version can bring a name that the base lacks.

        Imports of a module have one key in both versions, whatever names they list.
        """
        return key in self.added or self.other.by_key[key].is_import

    def mixed(self, chosen: Collection[str], instead: Mapping[str, str] | None = None) -> str:
        """Returns the base with the chosen pieces of the other version, or with their ``instead`` texts.

        An import that both versions have keeps the base's names, which other pieces use, and gets new ones.
        """
        return "\n".join(text for _, text in self._laid_out(chosen, instead)) + "\n"

    def key_at(self, line: int, chosen: Collection[str], instead: Mapping[str, str] | None = None) -> str:
        """Returns the key of the piece that a line (from 1) of :meth:`mixed` is in; empty after the last."""
        for key, text in self._laid_out(chosen, instead):
            line -= text.count("\n") + 1
            if line <= 0:
                return key
        return ""

    def _laid_out(
        self, chosen: Collection[str], instead: Mapping[str, str] | None
    ) -> Iterable[tuple[str, str]]:
        """Yields the pieces of a mix in their order, each with its text."""
        texts = {key: self._text(key) for key in chosen if key in self.other.by_key} | dict(instead or {})
        order = [key for key in self.base.by_key if key not in chosen or key in texts]
        places = set(order)
        previous: str | None = None
        for piece in self.other.pieces:
            if piece.key in chosen and piece.key not in places:
                order.insert(self._place(order, piece, previous), piece.key)
                places.add(piece.key)
            if piece.key in places:
                previous = piece.key
        yield from ((key, texts[key] if key in chosen else self.base.by_key[key].text) for key in order)

    def _text(self, key: str) -> str:
        base, other = self.base.by_key.get(key), self.other.by_key[key]
        if base is None or not (base.is_import and other.is_import):
            return other.text
        new = _only(other.text, frozenset(self.base.binds))
        return "\n".join([base.text, *new])

    def _place(self, order: list[str], piece: Piece, previous: str | None) -> int:
        """Returns where to insert a piece: after its predecessor in its own version, and inside its class."""
        place = order.index(previous) + 1 if previous is not None else 0
        if piece.owner:
            inside = [n for n, key in enumerate(order) if piece.owner in (key, self.owner_of(key))]
            return min(max(place, inside[0] + 1), inside[-1] + 1) if inside else place
        while place < len(order) and self.owner_of(order[place]):
            place += 1
        return place

    def owner_of(self, key: str) -> str:
        """Returns the class of a piece of either version; empty at the module's top level."""
        piece = self.base.by_key.get(key) or self.other.by_key.get(key)
        return piece.owner if piece is not None else ""


def is_python(path: str) -> bool:
    """Whether a file is Python; everything else is exchanged as text."""
    return path.endswith(".py")


def _whole(source: str) -> Module:
    piece = Piece(key=WHOLE, text=source.removesuffix("\n"), is_function=True)
    return Module(source, (piece,))


def _differ(one: Piece, other: Piece) -> bool:
    return one.text != other.text and one.shape != other.shape


def _classes(tree: ast.Module) -> frozenset[str]:
    """Returns the top-level classes whose body starts on a line of its own."""
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.body[0].lineno > node.lineno
    )


def _pieces(lines: list[str], tree: ast.Module, split: frozenset[str]) -> Iterable[Piece]:
    names: Counter[str] = Counter()
    at = 0  # lines up to here are assigned
    for group in _groups(tree.body):
        first, last = group[0], group[-1]
        end = last.end_lineno or last.lineno
        if isinstance(first, ast.ClassDef) and first.name in split and len(group) == 1:
            head_end = _start(first.body[0]) - 1
            head = copy.copy(first)
            head.body = [ast.Pass()]
            owner = _numbered(first.name, names)
            yield _piece(owner, lines[at:head_end], [head], "")
            at = head_end
            for inner in _groups(first.body):
                inner_end = inner[-1].end_lineno or inner[-1].lineno
                key = _numbered(f"{owner}.{_name(inner)}", names)
                yield _piece(key, lines[at:inner_end], inner, owner)
                at = inner_end
            continue
        yield _piece(_numbered(_name(group), names), lines[at:end], group, "")
        at = end


def _piece(key: str, lines: list[str], group: list[ast.stmt], owner: str) -> Piece:
    is_function = all(isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)) for stmt in group)
    inert = all(_inert(stmt) for stmt in group)
    binds = frozenset() if owner else frozenset(name for stmt in group for name in _bound(stmt))
    return Piece(
        key=key,
        text="\n".join(lines),
        owner=owner,
        is_function=is_function,
        inert=inert,
        is_import=all(_is_import(stmt) for stmt in group),
        binds=binds,
    )


def _is_import(stmt: ast.stmt) -> bool:
    return isinstance(stmt, (ast.Import, ast.ImportFrom))


def _only(text: str, without: Collection[str]) -> Iterable[str]:
    """Yields the imports of a text, less the names in ``without``."""
    for stmt in ast.parse(text).body:
        if isinstance(stmt, (ast.Import, ast.ImportFrom)):
            stmt.names = [one for one in stmt.names if (one.asname or one.name) not in without]
            if stmt.names:
                yield ast.unparse(stmt)


def _inert(stmt: ast.stmt) -> bool:
    if _is_import(stmt):
        return True
    defined = isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return defined and not getattr(stmt, "decorator_list", [])


def _groups(body: list[ast.stmt]) -> Iterable[list[ast.stmt]]:
    """Groups statements that share a line."""
    group: list[ast.stmt] = []
    for stmt in body:
        if group and _start(stmt) > (group[-1].end_lineno or 0):
            yield group
            group = []
        group.append(stmt)
    if group:
        yield group


def _start(stmt: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(stmt, "decorator_list", [])
    return min([stmt.lineno, *(one.lineno for one in decorators)])


def _name(group: list[ast.stmt]) -> str:
    """Returns a name that the matching statement in the other version also gets."""
    stmt = group[0]
    if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        overload = any(ast.unparse(one).rpartition(".")[2] == "overload" for one in stmt.decorator_list)
        return f"@overload {stmt.name}" if overload else stmt.name
    if isinstance(stmt, ast.Assign):
        return ast.unparse(stmt.targets[0])[:_KEY_LENGTH]
    if isinstance(stmt, (ast.AnnAssign, ast.AugAssign)):
        return ast.unparse(stmt.target)[:_KEY_LENGTH]
    if isinstance(stmt, ast.If):
        return f"if {ast.unparse(stmt.test)}"[:_KEY_LENGTH]
    return ast.unparse(stmt).split("\n")[0][:_KEY_LENGTH]


def _numbered(name: str, seen: Counter[str]) -> str:
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def _bound(stmt: ast.stmt) -> Iterable[str]:
    """Yields names that a top-level statement binds at run time, also inside branches."""
    if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield stmt.name
        return
    if isinstance(stmt, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in stmt.names)
        return
    if isinstance(stmt, ast.If) and ast.unparse(stmt.test).rpartition(".")[2] == "TYPE_CHECKING":
        for inner in stmt.orelse:
            yield from _bound(inner)
        return
    for node in ast.iter_child_nodes(stmt):
        if isinstance(node, ast.stmt):
            yield from _bound(node)
        elif isinstance(node, ast.ExceptHandler):
            for inner in node.body:
                yield from _bound(inner)
        else:
            yield from (
                n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            )

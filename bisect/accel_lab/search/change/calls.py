"""Decides whether a function of one release accepts the calls that the other release makes."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call. ``name`` is the last name of the callee; ``dotted`` says that it follows a dot.

    ``owner`` is the name before the dot, such as a class; empty if it is a longer expression.
    """

    name: str
    owner: str = ""
    positional: int
    keywords: frozenset[str]
    dotted: bool


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The parameters of a function. ``bound``: a call by attribute already supplies the first one."""

    positional: tuple[str, ...]
    only_keywords: frozenset[str]
    required: frozenset[str]
    many: bool
    any_keyword: bool
    bound: bool

    def takes(self, call: Call) -> bool:
        """Whether the call fits; a call by attribute counts as a method call if the function is a method."""
        places = self.positional[1:] if self.bound and call.dotted else self.positional
        given = {*places[: call.positional], *call.keywords}
        named = {*places, *self.only_keywords}
        if call.positional > len(places) and not self.many:
            return False
        if not self.any_keyword and call.keywords - named:
            return False
        return not (self.required & named) - given


@lru_cache(maxsize=32)  # what is read from a tree is kept, the tree is not: a release's would be gigabytes
def parsed(text: str) -> ast.Module | None:
    """Returns a piece's AST, or None if it is not Python; an indented class member is put below an ``if``."""
    for source in (text, f"if True:\n{text}"):
        try:
            return ast.parse(source)
        except SyntaxError:
            continue
    return None


@lru_cache(maxsize=4096)
def calls_of(text: str) -> tuple[Call, ...]:
    """Returns the calls in a piece that use no ``*`` or ``**`` arguments."""
    tree = parsed(text)
    return tuple(_calls(tree)) if tree is not None else ()


def _calls(tree: ast.AST) -> Iterable[Call]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        keywords = [one.arg for one in node.keywords if one.arg is not None]
        if len(keywords) < len(node.keywords) or any(isinstance(one, ast.Starred) for one in node.args):
            continue
        dotted = isinstance(node.func, ast.Attribute)
        name = getattr(node.func, "attr" if dotted else "id", "")
        if name:
            yield Call(
                name=name,
                owner=getattr(getattr(node.func, "value", None), "id", ""),
                positional=len(node.args),
                keywords=frozenset(keywords),
                dotted=dotted,
            )


def _function(text: str, member: bool) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, bool]:
    """Returns a piece's function node, if it is one, and whether :func:`parsed` put an ``if`` above it."""
    tree = parsed(text)
    node: ast.stmt | None = tree.body[0] if tree is not None and tree.body else None
    added = member and isinstance(node, ast.If)
    if added and isinstance(node, ast.If):
        node = node.body[0]
    return (node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None), added


@lru_cache(maxsize=4096)
def signature_of(text: str, member: bool) -> Signature | None:
    """Returns a function's parameters, or None for another piece. ``member``: it is in a class."""
    node, _ = _function(text, member)
    if node is None:
        return None
    args = node.args
    positional = [one.arg for one in (*args.posonlyargs, *args.args)]
    needed = positional[: len(positional) - len(args.defaults)]
    needed += [one.arg for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value is None]
    static = any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list)
    return Signature(
        positional=tuple(positional),
        only_keywords=frozenset(one.arg for one in args.kwonlyargs),
        required=frozenset(needed),
        many=args.vararg is not None,
        any_keyword=args.kwarg is not None,
        bound=member and not static,
    )


@lru_cache(maxsize=4096)
def fitted(base: str, other: str, member: bool) -> str:
    """Returns the other text, with the base's signature if the other one only drops parameters.

    Callers that still pass them then keep working; the body ignores them.
    """
    one, two = signature_of(base, member), signature_of(other, member)
    if one is None or two is None or two.many != one.many or two.any_keyword != one.any_keyword:
        return other
    names, fewer = {*one.positional, *one.only_keywords}, {*two.positional, *two.only_keywords}
    kept = tuple(name for name in one.positional if name in fewer)
    if not fewer < names or kept != two.positional:
        return other
    heads = _head(base, member), _head(other, member)
    if None in heads:
        return other
    above, below = base.split("\n")[: heads[0]], other.split("\n")[heads[1] :]
    return "\n".join([*above, *below])


def _head(text: str, member: bool) -> int | None:
    """Returns the number of lines before a function's body; None if the body starts on the last of them."""
    node, added = _function(text, member)
    if node is None:
        return None
    last = max([node.lineno, *(one.end_lineno or 0 for one in (*node.args.args, *node.args.kwonlyargs))])
    first = node.body[0].lineno - 1  # comments above the body go with the body's own text
    if node.returns is not None:
        last = max(last, node.returns.end_lineno or 0)
    lines = text.split("\n")
    at = last - added
    while at <= len(lines) and not lines[at - 1].rstrip().endswith(":"):
        at += 1
    return at if at <= first - added else None

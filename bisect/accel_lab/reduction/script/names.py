"""Finds names that a script uses but never binds, and definitions that are never used.

A candidate with a newly unbound name need not be tested; an unused function can go without a test. Both are
judged statically and relative to the script before the edit, so existing oddities are allowed.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterable, Iterator

from .tree import DEFINITIONS, IMPORTS, Edit, apply, drop, parents

_BUILTINS = frozenset(dir(builtins)) | {
    *("__file__", "__name__", "__doc__", "__spec__", "__builtins__", "__class__"),
    *("__annotations__", "__package__", "__module__", "__qualname__", "__loader__", "__cached__"),
}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def unbound(tree: ast.Module) -> frozenset[str]:
    """Returns the names that are used unbound, and ``self.x`` for attributes that are never set."""
    finder = _Finder()
    finder.run(tree)
    return frozenset(finder.faults) | _unset_attributes(tree)


def _unset_attributes(tree: ast.Module) -> frozenset[str]:
    given: set[str] = set()
    wanted: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                given.add(node.attr)
            elif isinstance(node.value, ast.Name) and node.value.id == "self":
                wanted.add(node.attr)
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                given.update(bound_by(part))
        elif isinstance(node, ast.Call):
            # setattr, register_buffer, add_module and the like name the attribute in a string.
            given.update(
                a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
            )
    return frozenset(f"self.{name}" for name in wanted - given)


def bound_by(node: ast.AST) -> Iterator[str]:
    """Yields the names that a node binds in its own scope."""
    if isinstance(node, DEFINITIONS):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.split(".")[0]
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield from bound_by(node.value)  # an augmented assignment needs the name to be bound already
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(node, _COMPREHENSIONS) and isinstance(child, ast.comprehension):
            yield from bound_by(child.iter)
            continue
        yield from bound_by(child)


def parameters(node: ast.AST) -> list[ast.arg]:
    """Returns all parameters of a function or lambda."""
    args = getattr(node, "args", None)
    if not isinstance(args, ast.arguments):
        return []
    single = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *single]


class _Finder:
    """Walks scopes in source order; function bodies come last, because they run later."""

    def __init__(self) -> None:
        self.faults: set[str] = set()
        self.star = False
        self._globals: set[str] = set()

    def run(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                self.star = True
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                self._globals.update(node.names)
        self._scope(tree.body, set(), [])
        if self.star:
            self.faults.clear()

    def _scope(self, body: Iterable[ast.AST], given: set[str], outer: list[set[str]]) -> None:
        """Checks one scope; ``given`` is bound at its start, ``outer`` are the enclosing scopes."""
        body = list(body)
        local = {name for node in body for name in bound_by(node)} | given
        seen = set(given) | (self._globals & local)
        later: list[ast.AST] = []
        for node in body:
            self._visit(node, local, seen, outer, later)
        around = [*outer, local]
        for function in later:
            inner = function.body if isinstance(function.body, list) else [function.body]  # type: ignore[attr-defined]
            self._scope(inner, {arg.arg for arg in parameters(function)}, around)

    def _visit(
        self,
        node: ast.AST,
        local: set[str],
        seen: set[str],
        outer: list[set[str]],
        later: list[ast.AST],
    ) -> None:
        def go(part: ast.AST) -> None:
            self._visit(part, local, seen, outer, later)

        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                seen.add(node.id)
            elif not self._known(node.id, seen, outer):
                self.faults.add(node.id)
            elif isinstance(node.ctx, ast.Del):
                seen.discard(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for part in (*node.args.defaults, *node.args.kw_defaults, *getattr(node, "decorator_list", ())):
                if part is not None:
                    go(part)
            later.append(node)
            seen.update(bound_by(node))
        elif isinstance(node, ast.ClassDef):
            for part in (*node.decorator_list, *node.bases, *(word.value for word in node.keywords)):
                go(part)
            # Names bound in a class body are visible there, but not in its methods.
            inside = local | {name for part in node.body for name in bound_by(part)}
            body_seen = set(seen)
            for part in node.body:
                self._visit(part, inside, body_seen, outer, later)
                body_seen.update(bound_by(part))
            seen.add(node.name)
        elif isinstance(node, _COMPREHENSIONS):
            names = {name for part in node.generators for name in bound_by(part.target)}
            inner = seen | names
            for child in ast.iter_child_nodes(node):
                self._visit(child, local | names, inner, outer, later)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            if node.value is not None:
                go(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                go(target)
        elif isinstance(node, ast.AugAssign):
            go(node.value)
            go(node.target if not isinstance(node.target, ast.Name) else ast.Name(node.target.id, ast.Load()))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            for part in (node.iter, node.target, *node.body, *node.orelse):
                go(part)
        else:
            if isinstance(node, (ast.alias, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
                seen.update(bound_by(node))
            for child in ast.iter_child_nodes(node):
                go(child)

    def _known(self, name: str, seen: set[str], outer: list[set[str]]) -> bool:
        return name in seen | self._globals | _BUILTINS or any(name in scope for scope in outer)


def mentions(tree: ast.AST) -> Counter[str]:
    """Counts how often each name is read: as a name, an attribute, or a whole string."""
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute):
            found[node.attr] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found[node.value] += 1
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
    return found


def without_unused(tree: ast.Module) -> ast.Module:
    """Drops unused definitions without side effects until there are none."""
    while True:
        edits = list(_unused(tree))
        if not edits:
            return tree
        tree = apply(tree, edits)


def _unused(tree: ast.Module) -> Iterator[Edit]:
    read = mentions(tree)
    around = parents(tree)
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            own = sum(count for name, count in mentions(node).items() if name == node.name)
            dunder = node.name.startswith("__") or isinstance(around[node], ast.ClassDef)
            if not node.decorator_list and not dunder and read[node.name] <= own:
                yield drop(node)
        elif isinstance(node, ast.Assign) and _is_inert(node.value):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            in_class = isinstance(around[node], ast.ClassDef)
            if len(names) == len(node.targets) and not in_class and not any(read[name] for name in names):
                yield drop(node)


def _is_inert(node: ast.expr) -> bool:
    """Whether evaluating the value runs no code of the script or a library."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_inert(part) for part in node.elts)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant)
    return isinstance(node, (ast.Constant, ast.Name, ast.Lambda))


def without_aliases(tree: ast.Module) -> ast.Module:
    """Replaces ``a`` by ``b`` after ``a = b`` if both are bound only once."""
    edits: list[Edit] = []
    top = bindings(tree)
    for scope in ast.walk(tree):
        if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            continue
        # Only statements directly in the scope: not under a condition or in a loop.
        pairs = [pair for node in scope.body if (pair := _alias(node)) is not None]
        if not pairs:
            continue
        bound = top if scope is tree else bindings(scope)
        stands_for: dict[str, str] = {}
        for node, name, value in pairs:
            free = bound[value] == 0 and scope is not tree and top[value] > 1
            if bound[name] == 1 and bound[value] <= 1 and name != value and not free:
                stands_for[name] = stands_for.get(value, value)
                edits.append(drop(node))
        for use in ast.walk(scope):
            if isinstance(use, ast.Name) and isinstance(use.ctx, ast.Load) and use.id in stands_for:
                edits.append(_renamed(use, stands_for[use.id]))
    return apply(tree, edits) if edits else tree


def _alias(node: ast.stmt) -> tuple[ast.stmt, str, str] | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Name):
        target = node.targets[0]
        if isinstance(target, ast.Name):
            return node, target.id, node.value.id
    return None


def _renamed(node: ast.Name, name: str) -> Edit:
    return Edit({node: lambda rebuild: ast.Name(id=name, ctx=node.ctx)})


def bindings(scope: ast.AST) -> Counter[str]:
    """Counts how often each name is bound within a scope, including inner scopes."""
    found: Counter[str] = Counter()
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(node, ast.arg):
            found[node.arg] += 1
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names * 2)
        elif isinstance(node, (*DEFINITIONS, ast.alias, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if node is not scope:
                found.update(bound_by(node) if not isinstance(node, ast.ExceptHandler) else [node.name or ""])
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] += 1
    return found


def unused_imports(tree: ast.Module) -> list[Edit]:
    """Returns an edit for each unused import; a statement without remaining names is dropped."""
    read = mentions(tree)
    edits: list[Edit] = []
    for node in ast.walk(tree):
        if not isinstance(node, IMPORTS) or getattr(node, "module", None) == "__future__":
            continue
        idle = [a for a in node.names if a.name != "*" and not read[a.asname or a.name.split(".")[0]]]
        if len(idle) == len(node.names):
            edits.append(drop(node))
        else:
            edits.extend(drop(alias) for alias in idle)
    return edits

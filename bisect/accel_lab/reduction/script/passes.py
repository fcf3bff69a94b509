"""Edits that shorten a script, by kind; each function lists the edits of a tree.

Statements and blocks are here, expressions and constants in :mod:`.expressions`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .names import bound_by, mentions, parameters
from .tree import DEFINITIONS, IMPORTS, SCOPES, Edit, Rebuild, Result, blocks, drop, parents, replace_by

#: Parts of names of calls that compare values or end the script, and so define its failure.
CHECK_WORDS = ("close", "assert", "equal", "raises", "exit", "check")


def plain_name(node: ast.AST) -> str:
    """Returns the last name of ``a.b.c``, or an empty string."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_check_call(node: ast.AST) -> bool:
    """Whether a call compares values or ends the script, judged by its name."""
    return isinstance(node, ast.Call) and any(word in plain_name(node.func).lower() for word in CHECK_WORDS)


def is_check(node: ast.stmt) -> bool:
    """Whether a statement can make the script fail on purpose."""
    if isinstance(node, (*DEFINITIONS, *IMPORTS)):
        return False
    return any(isinstance(part, (ast.Assert, ast.Raise)) or is_check_call(part) for part in ast.walk(node))


# -- cosmetic ---------------------------------------------------------------------------------


def ornaments(tree: ast.Module) -> list[Edit]:
    """Returns removals of docstrings, prints, annotations and the guard of ``__main__``."""
    return [*_docstrings(tree), *_prints(tree), *_annotations(tree), *_guards(tree)]


def _docstrings(tree: ast.Module) -> Iterator[Edit]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield drop(node)


def _prints(tree: ast.Module) -> Iterator[Edit]:
    for node in ast.walk(tree):
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print":
            yield drop(node)


def _annotations(tree: ast.Module) -> Iterator[Edit]:
    around = parents(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield drop(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            yield drop(node.returns)
        elif isinstance(node, ast.AnnAssign) and not isinstance(around[node], ast.ClassDef):
            yield _unannotated(node)


def _unannotated(node: ast.AnnAssign) -> Edit:
    def change(rebuild: Rebuild) -> Result:
        if node.value is None:
            return None
        value, target = rebuild(node.value), rebuild(node.target)
        return ast.Assign(targets=[target], value=value, lineno=node.lineno)  # type: ignore[list-item, arg-type]

    return Edit({node: change}, 4)


def _guards(tree: ast.Module) -> Iterator[Edit]:
    for node in tree.body:
        if isinstance(node, ast.If) and not node.orelse and "__name__" in ast.unparse(node.test):
            yield replace_by(node, *node.body)


def unwrapped_main(tree: ast.Module) -> list[Edit]:
    """Inlines functions like ``def main(): ...`` that are called once, as a statement without arguments.

    Functions with parameters, decorators, ``return``, ``yield`` or names that the module binds too are
    skipped.
    """
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    calls = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    read = mentions(tree)
    top = {name for node in tree.body for name in bound_by(node)}
    edits: list[Edit] = []
    for statement in calls:
        call = statement.value
        assert isinstance(call, ast.Call)
        function = functions.get(plain_name(call.func)) if isinstance(call.func, ast.Name) else None
        if function is None or read[function.name] != 1 or call.args or call.keywords:
            continue
        inner = [part for node in function.body for part in _own(node)]
        words = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Nonlocal, ast.Global)
        names = {name for node in function.body for name in bound_by(node)}
        if parameters(function) or function.decorator_list or names & top:
            continue
        if not any(isinstance(part, words) for part in inner):
            edits.append(
                Edit(
                    {**replace_by(statement, *function.body).changes, **drop(function).changes},
                    len(function.name) * 2 + 12,
                )
            )
    return edits


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a statement, without those of functions that it defines."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield from _own(child)


# -- statements ---------------------------------------------------------------------------------


def slices(tree: ast.Module) -> Iterator[list[Edit]]:
    """Yields, for each of the last checks, the edits that keep only the check and what it needs.

    The first slice also keeps statements that may change a needed value; the second, greedier one keeps only
    those that bind the names.
    """
    body = tree.body
    targets = [n for n, node in enumerate(body) if is_check(node)][::-1][:3]
    if not targets:
        targets = [n for n, node in enumerate(body) if not isinstance(node, (*IMPORTS, *DEFINITIONS))][::-1][
            :3
        ]
    for target in targets:
        for with_effects in (False, True):
            kept = _needed(body, target, with_effects)
            gone = [drop(node) for n, node in enumerate(body) if n not in kept]
            if gone:
                yield gone


def _needed(body: Sequence[ast.stmt], target: int, with_effects: bool) -> set[int]:
    binds = [set(bound_by(node)) for node in body]
    reads = [set(mentions(node)) for node in body]
    kept = {target}
    wanted = set(reads[target])
    while True:
        more = set()
        for n, node in enumerate(body):
            if n in kept or isinstance(node, IMPORTS):
                continue
            acts = with_effects and n < target and not isinstance(node, DEFINITIONS) and not is_check(node)
            touches = _touched(node) if acts else set()
            if binds[n] & wanted or touches & wanted:
                more.add(n)
        if not more:
            return kept | {n for n, node in enumerate(body) if isinstance(node, IMPORTS)}
        kept |= more
        for n in more:
            wanted |= reads[n]


def _touched(node: ast.stmt) -> set[str]:
    """Returns the names whose values a statement may change."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def droppable(statements: Sequence[ast.stmt], tree: ast.Module) -> list[ast.stmt]:
    """Returns the statements that may be dropped: no imports, no ``pass``, no function's own ``return``."""
    around = parents(tree)
    found = []
    for node in statements:
        if isinstance(node, (*IMPORTS, ast.Pass, ast.Global, ast.Nonlocal)):
            continue
        if isinstance(node, ast.Return) and isinstance(around[node], SCOPES):
            continue
        found.append(node)
    return found


def bypass(node: ast.stmt) -> Edit | None:
    """Returns the edit that replaces ``v = f(x, y)`` by ``v = x``, or None."""
    if not (isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets)):
        return None
    value: ast.expr | None = node.value
    while value is not None and not isinstance(value, ast.Name):
        value = _inner(value)
    return None if value is None or value is node.value else replace_by(node.value, value)


def _inner(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if node.args and (owner is None or isinstance(node.args[0], ast.Name)):
            first = node.args[0]
            return first.value if isinstance(first, ast.Starred) else first
        return owner
    if isinstance(node, ast.BinOp):
        return node.right if isinstance(node.left, ast.Constant) else node.left
    if isinstance(node, ast.UnaryOp):
        return node.operand
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return node.value
    if isinstance(node, ast.IfExp):
        return node.body
    return None


# -- blocks -------------------------------------------------------------------------------------


def unwrappings(tree: ast.Module) -> list[Edit]:
    """Replaces ``with``, ``if``, ``for``, ``while`` and ``try`` by their bodies, and drops decorators."""
    edits: list[Edit] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.With, ast.AsyncWith)) and not any(item.optional_vars for item in node.items):
            edits.append(replace_by(node, *node.body))
            if len(node.items) > 1:
                edits.extend(drop(item) for item in node.items)
        elif isinstance(node, ast.If) and any(is_check(part) for part in (*node.body, *node.orelse)):
            continue  # without its condition the check would always fail
        elif isinstance(node, ast.If):
            edits.append(replace_by(node, *node.body))
            if node.orelse:
                edits.append(replace_by(node, *node.orelse))
        elif isinstance(node, ast.While):
            edits.append(replace_by(node, *node.body))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            edits.append(_one_round(node))
        elif isinstance(node, ast.Try):
            edits.append(replace_by(node, *node.body, *node.orelse, *node.finalbody))
            if len(node.handlers) + bool(node.finalbody) > 1:
                edits.extend(drop(handler) for handler in node.handlers)
        if isinstance(node, DEFINITIONS):
            edits.extend(drop(decorator) for decorator in node.decorator_list)
            if isinstance(node, ast.ClassDef) and len(node.bases) > 1:
                edits.extend(drop(base) for base in node.bases)
        for block in blocks(node):
            if block is getattr(node, "orelse", None) and not isinstance(node, ast.Try):
                edits.append(Edit({part: lambda rebuild: None for part in block}, 10))
    return edits


def _one_round(node: ast.For | ast.AsyncFor) -> Edit:
    """Replaces a loop by its first iteration; a used loop variable gets its first value."""
    names = set(bound_by(node.target))
    used = any(isinstance(n, ast.Name) and n.id in names for part in node.body for n in ast.walk(part))

    def change(rebuild: Rebuild) -> Result:
        made: list[ast.AST] = []
        if used:
            target = rebuild(node.target)
            assert isinstance(target, ast.expr)
            made.append(ast.Assign(targets=[target], value=_first_of(node.iter), lineno=node.lineno))
        for part in node.body:
            result = rebuild(part)
            made += [result] if isinstance(result, ast.AST) else list(result or ())
        return made

    return Edit({node: change}, 8)


def _first_of(node: ast.expr) -> ast.expr:
    """Returns a readable expression for the first element of an iterable."""
    if isinstance(node, (ast.Tuple, ast.List)) and node.elts:
        return node.elts[0]
    if isinstance(node, ast.Call) and plain_name(node.func) == "range":
        return node.args[0] if len(node.args) > 1 else ast.Constant(0)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.Subscript(value=node, slice=ast.Constant(0), ctx=ast.Load())
    first = ast.Call(func=ast.Name("iter", ast.Load()), args=[node], keywords=[])
    return ast.Call(func=ast.Name("next", ast.Load()), args=[first], keywords=[])

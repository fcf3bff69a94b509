"""Edits inside statements: fewer arguments and elements, simpler expressions, inlined names.

What the script's own check compares, and its tolerances, stay unchanged: a tolerance of zero would turn
rounding into a failure, and a different failure is worse than a longer script.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .names import bound_by, mentions, parameters
from .passes import is_check_call, plain_name
from .tree import IMPORTS, Change, Edit, blocks, drop, parents, replace_by

#: Usual names of tolerances.
_TOLERANCES = frozenset({"atol", "rtol", "tol", "eps", "epsilon", "tolerance", "delta", "places", "timeout"})
#: Calls whose arguments must not change.
_FIXED_CALLS = frozenset(
    {
        "isinstance",
        "getattr",
        "hasattr",
        "setattr",
        "super",
        "range",
        "len",
        "zip",
        "enumerate",
        "register_buffer",
    }
)


def frozen(tree: ast.Module) -> set[ast.AST]:
    """Returns the nodes of checks that must not change: comparisons, down to the calls that they compare."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assert, ast.If, ast.While)):
            _freeze(node.test, found)
            if isinstance(node, ast.Assert) and node.msg is not None:
                found.update(ast.walk(node.msg))
        elif isinstance(node, (ast.Compare, ast.Raise)) or is_check_call(node):
            _freeze(node, found)
        elif isinstance(node, ast.keyword) and node.arg in _TOLERANCES:
            found.update(ast.walk(node))
        elif isinstance(node, ast.Assign) and any(_is_tolerance(target) for target in node.targets):
            found.update(ast.walk(node.value))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _freeze_defaults(node.args, found)
    names = {node.id for node in found if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        # A value that a check reads through a name is part of the check.
        if isinstance(node, ast.Assign) and any(plain_name(target) in names for target in node.targets):
            _freeze(node.value, found)
    return found


def _is_tolerance(node: ast.expr) -> bool:
    return any(word in _TOLERANCES for word in plain_name(node).lower().split("_"))


def _freeze_defaults(args: ast.arguments, found: set[ast.AST]) -> None:
    positional = [*args.posonlyargs, *args.args][::-1]
    pairs = [
        *zip(positional, args.defaults[::-1], strict=False),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    for arg, default in pairs:
        if arg.arg.lower() in _TOLERANCES and default is not None:
            found.update(ast.walk(default))


def _freeze(node: ast.AST, found: set[ast.AST]) -> None:
    found.add(node)
    if isinstance(node, ast.Call) and not is_check_call(node):
        _freeze(node.func, found)
        return
    for child in ast.iter_child_nodes(node):
        _freeze(child, found)


# -- removal ----------------------------------------------------------------------------------


def elements(tree: ast.Module) -> list[Edit]:
    """Returns removals of arguments, elements, dict entries and conditions, the largest last."""
    fixed = frozen(tree)
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    edits: list[Edit] = []
    for node in ast.walk(tree):
        if node in fixed and not isinstance(node, ast.Call):
            continue
        if isinstance(node, ast.Call) and not is_check_call(node):
            edits.extend(_arguments(node, own))
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)) and isinstance(
            getattr(node, "ctx", None), ast.Load
        ):
            edits.extend(drop(part) for part in node.elts)
        elif isinstance(node, ast.Dict):
            edits.extend(_entry(node, n) for n in range(len(node.values)))
        elif isinstance(node, ast.BoolOp) and len(node.values) > 1:
            edits.extend(replace_by(node, value) for value in node.values)
        elif isinstance(node, ast.comprehension):
            edits.extend(drop(part) for part in node.ifs)
    return sorted(edits, key=lambda edit: edit.gain)


def _arguments(node: ast.Call, own: set[str]) -> Iterator[Edit]:
    name = plain_name(node.func)
    if name in _FIXED_CALLS:
        return
    for word in node.keywords:
        if word.arg not in _TOLERANCES:
            yield drop(word)
    if name in own:
        return
    for n, arg in enumerate(node.args):
        if n or not isinstance(
            arg, (ast.Name, ast.Attribute, ast.Call, ast.BinOp, ast.Starred, ast.Subscript)
        ):
            yield drop(arg)
        elif len(node.args) > 1 and isinstance(arg, ast.Call):
            yield drop(arg)  # it may be a layer of nn.Sequential


def _entry(node: ast.Dict, place: int) -> Edit:
    key = node.keys[place]
    changes = dict(drop(node.values[place]).changes)
    if key is not None:
        changes.update(drop(key).changes)
    return Edit(changes, drop(node.values[place]).gain)


def idle_parameters(tree: ast.Module) -> list[Edit]:
    """Returns removals of unused parameters, together with their arguments in all visible calls."""
    edits: list[Edit] = []
    around = parents(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.args.vararg or node.args.posonlyargs:
            continue
        method = isinstance(around[node], ast.ClassDef)
        owner = around[node]
        names = {owner.name if isinstance(owner, ast.ClassDef) else node.name}
        calls = [
            call
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and _leads_to(call.func, names, tree)
        ]
        for n, arg in enumerate(node.args.args):
            if (method and n == 0) or any(mentions(part)[arg.arg] for part in node.body):
                continue
            edits.append(_without_parameter(node, n, n - method, calls))
    return edits


def _without_parameter(node: ast.FunctionDef, place: int, passed: int, calls: list[ast.Call]) -> Edit:
    arg = node.args.args[place]
    changes = dict(drop(arg).changes)
    default = place - (len(node.args.args) - len(node.args.defaults))
    if default >= 0:
        changes.update(drop(node.args.defaults[default]).changes)
    for call in calls:
        if passed < len(call.args):
            changes.update(drop(call.args[passed]).changes)
        for word in call.keywords:
            if word.arg == arg.arg:
                changes.update(drop(word).changes)
    return Edit(changes, len(arg.arg) + 2)


def _leads_to(node: ast.expr, names: set[str], tree: ast.Module) -> bool:
    """Whether a call's target is one of ``names``, an object made by it, or a variable of one."""
    known = set(names)
    for statement in ast.walk(tree):
        if isinstance(statement, ast.Assign) and any(
            isinstance(n, ast.Name) and n.id in known for n in ast.walk(statement.value)
        ):
            if not isinstance(statement.value, ast.Call):
                continue
            known.update(target.id for target in statement.targets if isinstance(target, ast.Name))
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Call):
        inner = [node.func, *node.args]
        return any(isinstance(n, ast.Name) and n.id in known for part in inner for n in ast.walk(part))
    return False


# -- simplification -----------------------------------------------------------------------------


def simpler(tree: ast.Module) -> list[Edit]:
    """Returns replacements of expressions by one of their parts, the greatest gain last."""
    fixed = frozen(tree)
    around = parents(tree)
    edits: list[Edit] = []
    modules = {"self"} | {name for n in ast.walk(tree) if isinstance(n, IMPORTS) for name in bound_by(n)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or node in fixed or isinstance(around[node], ast.keyword):
            continue
        if isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)) or _is_callee(node, around):
            continue
        whole = isinstance(around[node], ast.Expr)
        for part in _parts(node, modules):
            # A bare name as a statement does nothing, and dropping the statement was tried before.
            if not (whole and not isinstance(part, ast.Call)):
                edits.append(replace_by(node, part))
    return sorted(edits, key=lambda edit: edit.gain)


def _is_callee(node: ast.expr, around: dict[ast.AST, ast.AST]) -> bool:
    outer = around[node]
    return isinstance(outer, ast.Call) and outer.func is node


def _parts(node: ast.expr, modules: set[str]) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield node.left
        yield node.right
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Call):
            yield node.value
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and _root(node.func) not in modules:
            yield node.func.value
        for arg in node.args:
            if not isinstance(arg, (ast.Constant, ast.Starred)):
                yield arg
                break


def _root(node: ast.expr) -> str:
    """Returns ``torch`` for ``torch.nn.functional.relu``; empty if the chain does not start with a name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def inlined(tree: ast.Module) -> list[Edit]:
    """Returns edits that inline single uses: one-``return`` functions, returned names, constant defaults."""
    edits = [edit for node in ast.walk(tree) for edit in _inline(node, tree)]
    return [*edits, *_returned(tree), *_defaults(tree)]


def _returned(tree: ast.Module) -> Iterator[Edit]:
    """Turns ``v = f(x); return v`` into ``return f(x)``."""
    for block in (block for node in ast.walk(tree) for block in blocks(node)):
        for before, after in pairwise(block):
            if not (isinstance(before, ast.Assign) and isinstance(after, ast.Return)):
                continue
            target, value = before.targets[0], after.value
            if not (isinstance(target, ast.Name) and isinstance(value, ast.Name)):
                continue
            if len(before.targets) == 1 and target.id == value.id:
                yield Edit({**drop(before).changes, **replace_by(value, before.value).changes}, 2)


def _defaults(tree: ast.Module) -> Iterator[Edit]:
    """Inlines the constant default of a last parameter that no call passes by keyword."""
    words = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.args.defaults:
            continue
        arg, default = node.args.args[-1], node.args.defaults[-1]
        uses = [
            n for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name) and n.id == arg.arg
        ]
        free = isinstance(default, ast.Constant) and arg.arg not in words
        if free and all(isinstance(use.ctx, ast.Load) for use in uses):
            changes = {**drop(arg).changes, **drop(default).changes}
            yield Edit({**changes, **_all_become(uses, default)}, len(arg.arg))


def _all_become(uses: Sequence[ast.Name], value: ast.expr) -> dict[ast.AST, Change]:
    return dict.fromkeys(uses, lambda rebuild: value)


def _inline(node: ast.AST, tree: ast.Module) -> Iterator[Edit]:
    if not isinstance(node, ast.FunctionDef) or len(node.body) != 1 or node.decorator_list:
        return
    result = node.body[0]
    names = [arg.arg for arg in parameters(node)]
    if not isinstance(result, ast.Return) or result.value is None or mentions(tree)[node.name] != 1:
        return
    for call in ast.walk(tree):
        direct = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == node.name
        if not direct or not isinstance(call, ast.Call) or call.keywords or len(call.args) != len(names):
            continue
        given = dict(zip(names, call.args, strict=True))
        uses = [n for n in ast.walk(result.value) if isinstance(n, ast.Name) and n.id in given]
        once = all(sum(use.id == name for use in uses) == 1 for name in names)
        if once or all(isinstance(arg, (ast.Name, ast.Constant)) for arg in call.args):
            changes = dict(replace_by(call, result.value).changes)
            for use in uses:
                changes.update(replace_by(use, given[use.id]).changes)
            yield Edit({**changes, **drop(node).changes}, 20)

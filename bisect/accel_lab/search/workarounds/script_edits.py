"""Edits a script as a user would by hand: lines below ``import torch``, a keyword, a decorator.

All edits work on the text, so unchanged parts stay as the user wrote them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

#: Arguments that only Inductor takes.
_INDUCTORS = ("mode", "options")


@dataclass(frozen=True, kw_only=True)
class Edited:
    """The changed script, and its new lines."""

    text: str
    lines: tuple[str, ...]


def parsed(source: str) -> ast.Module | None:
    """Returns the syntax tree; None for text that is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _rows(source: str) -> list[str]:
    """Returns the lines as the parser counts them: a form feed ends none."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", source)


def paste(source: str, lines: Sequence[str]) -> Edited | None:
    """Returns the script with lines pasted below its first torch import, else below its docstring."""
    tree = parsed(source)
    if tree is None:
        return None
    place = next((node for node in tree.body if _imports_torch(node)), None)
    if place is None:
        return paste_above(source, ["import torch", *lines])
    after = place.end_lineno or place.lineno
    return _inserted(source, after, [*([] if _binds_torch(place) else ["import torch"]), *lines])


def paste_above(source: str, lines: Sequence[str]) -> Edited | None:
    """Returns the script with lines before everything that runs: below docstring and future imports."""
    tree = parsed(source)
    if tree is None:
        return None
    leading = 0
    for node in tree.body:
        if not _leads(node):
            break
        leading = node.end_lineno or leading
    return _inserted(source, leading, lines)


def _inserted(source: str, after: int, lines: Sequence[str]) -> Edited | None:
    """Returns the script with lines inserted below line ``after`` (0: at the top); None if it breaks."""
    rows = _rows(source)
    if after and not rows[after - 1].endswith("\n"):
        rows[after - 1] += "\n"
    text = "".join([*rows[:after], *(line + "\n" for line in lines), *rows[after:]])
    return Edited(text=text, lines=tuple(lines)) if parsed(text) is not None else None


def _leads(node: ast.stmt) -> bool:
    """Whether a statement has to stay first: the docstring, imports from ``__future__``."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _imports_torch(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "torch" for alias in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch"


def _binds_torch(node: ast.stmt) -> bool:
    """Whether ``torch`` is a name after the statement."""
    if not isinstance(node, ast.Import):
        return False
    return any(
        alias.name.split(".")[0] == "torch" and alias.asname in (None, "torch") for alias in node.names
    )


# -- torch.compile -----------------------------------------------------------------------------------


def with_argument(source: str, name: str, value: str) -> Edited | None:
    """Returns the script with ``name=value`` in every ``torch.compile``; None if it has none.

    ``value`` is Python source. With another backend, arguments that only Inductor takes are dropped.
    """
    tree = parsed(source)
    if tree is None:
        return None
    names = _compile_names(tree)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_compile(n.func, names)]
    bare = [one for _, one in _compiling_decorators(tree, names) if not isinstance(one, ast.Call)]
    given = ast.keyword(arg=name, value=ast.parse(value, mode="eval").body)
    dropped = {name, *(_INDUCTORS if name == "backend" else ())}
    changes: list[tuple[ast.expr, str]] = []
    for call in calls:
        kept = [word for word in call.keywords if word.arg not in dropped]
        new = ast.Call(func=call.func, args=call.args, keywords=[*kept, given])
        changes.append((call, ast.unparse(ast.fix_missing_locations(new))))
    for decorator in bare:
        new = ast.Call(func=decorator, args=[], keywords=[given])
        changes.append((decorator, ast.unparse(ast.fix_missing_locations(new))))
    return _replaced(source, changes)


#: A wrapper of a compiled callable that gives each tensor argument memory of its own.
_OWN_MEMORY = (
    "def own_memory(compiled):",
    "    def call(*args, **kwargs):",
    "        clone = lambda t: torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, t)",
    "        return compiled(*clone(args), **clone(kwargs))",
    "    return call",
)


def cloned_arguments(source: str) -> Edited | None:
    """Returns the script with compiled callables called on clones of their tensors; None if it has none."""
    tree = parsed(source)
    if tree is None:
        return None
    names = _compile_names(tree)
    decorators = [
        (node, one)
        for node, one in _compiling_decorators(tree, names)
        if not isinstance(node, ast.ClassDef)  # calls of a class only construct it
    ]
    decorating = {id(one) for _, one in decorators}
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _is_compile(n.func, names) and n.args]
    changes = [(n, f"own_memory({ast.unparse(n)})") for n in calls if id(n) not in decorating]
    changed = _replaced(source, changes) if changes else Edited(text=source, lines=())
    if changed is None or not (changes or decorators):
        return None
    rows = _rows(changed.text)
    lines = list(changed.lines)
    for node, one in sorted(decorators, key=lambda pair: -pair[1].lineno):
        rows.insert(one.lineno - 1, f"{' ' * node.col_offset}@own_memory\n")
        lines += ["@own_memory", f"@{ast.unparse(one)}"]
    edited = paste("".join(rows), _OWN_MEMORY)
    return Edited(text=edited.text, lines=(*edited.lines, *lines)) if edited is not None else None


def _compile_names(tree: ast.Module) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the script's names for the module torch, and for its function ``compile``."""
    modules, functions = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {
                alias.asname or "torch"
                for alias in node.names
                if alias.name == "torch" or (alias.name.startswith("torch.") and not alias.asname)
            }
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            functions |= {alias.asname or alias.name for alias in node.names if alias.name == "compile"}
    return frozenset(modules), frozenset(functions)


def _compiling_decorators(
    tree: ast.AST, names: tuple[frozenset[str], frozenset[str]]
) -> list[tuple[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, ast.expr]]:
    """Returns functions and classes with each decorator that is ``torch.compile``, called or not."""
    return [
        (node, one)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        for one in node.decorator_list
        if _is_compile(one.func if isinstance(one, ast.Call) else one, names)
    ]


def _is_compile(node: ast.expr, names: tuple[frozenset[str], frozenset[str]]) -> bool:
    modules, functions = names
    if isinstance(node, ast.Attribute) and node.attr == "compile":
        return isinstance(node.value, ast.Name) and node.value.id in modules
    return isinstance(node, ast.Name) and node.id in functions


def _replaced(source: str, changes: Sequence[tuple[ast.expr, str]]) -> Edited | None:
    """Returns the text with expressions replaced; of nested ones only the outer one."""
    rows = [line.encode() for line in _rows(source)]
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    data = b"".join(rows)
    spans = sorted(
        (
            starts[node.lineno - 1] + node.col_offset,
            starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0),
            text,
        )
        for node, text in changes
    )
    kept: list[tuple[int, int, str]] = []
    for span in spans:
        if not kept or span[0] >= kept[-1][1]:
            kept.append(span)
    for start, end, text in reversed(kept):
        data = data[:start] + text.encode() + data[end:]
    result = data.decode()
    if not kept or parsed(result) is None:
        return None
    return Edited(text=result, lines=tuple(dict.fromkeys(text for _, _, text in kept)))


# -- functions ---------------------------------------------------------------------------------------


def disabled(source: str, function: str) -> Edited | None:
    """Returns the script with ``@torch.compiler.disable`` on the function; None unless the name is unique."""
    tree = parsed(source)
    if tree is None:
        return None
    names = _compile_names(tree)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function
    ]
    if len(found) != 1 or not names[0]:
        return None
    node = found[0]
    module = "torch" if "torch" in names[0] else min(names[0])
    compiled = any(owner is node for owner, _ in _compiling_decorators(node, names))
    # Above the decorator that compiles the function, or below all decorators that wrap it.
    line = min(one.lineno for one in node.decorator_list) if compiled else node.lineno
    rows = _rows(source)
    indent = rows[line - 1][: len(rows[line - 1]) - len(rows[line - 1].lstrip())]
    decorator = f"@{module}.compiler.disable"
    text = "".join([*rows[: line - 1], f"{indent}{decorator}\n", *rows[line - 1 :]])
    head = rows[node.lineno - 1].strip()
    lines = (decorator, *(("...",) if compiled else ()), head)
    return Edited(text=text, lines=lines) if parsed(text) is not None else None


def compiled_functions(source: str) -> list[str]:
    """Returns the functions that ``torch.compile`` is called on by name or decorates, in order."""
    tree = parsed(source)
    if tree is None:
        return []
    names, found = _compile_names(tree), []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            words = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
            found += [node.name] if any(_is_compile(word, names) for word in words) else []
        elif isinstance(node, ast.Call) and _is_compile(node.func, names) and node.args:
            found += [node.args[0].id] if isinstance(node.args[0], ast.Name) else []
    return list(dict.fromkeys(found))

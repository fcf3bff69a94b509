"""A Python script as a tree: applies edits and renders readable source.

Trees are never changed in place. An edit maps nodes to changes, and applying any set of edits gives a new
tree, so edits can be tested together and separately.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

#: Replacement of a node: another node, several statements, or nothing.
Result = ast.AST | Sequence[ast.AST] | None
#: Returns the copy of a child node with the edits below it applied.
Rebuild = Callable[[ast.AST], Result]
Change = Callable[[Rebuild], Result]

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Edit:
    """A smallest self-contained change; ``gain`` is roughly the number of characters saved."""

    changes: Mapping[ast.AST, Change]
    gain: int = 0


def drop(node: ast.AST) -> Edit:
    """Returns the edit that removes a node from its list."""
    return Edit({node: lambda rebuild: None}, length(node))


def replace_by(node: ast.AST, *inner: ast.AST) -> Edit:
    """Returns the edit that replaces a node by its parts or by new nodes."""

    def change(rebuild: Rebuild) -> Result:
        return [part for one in inner for part in _as_list(rebuild(one))]

    return Edit({node: change}, length(node) - sum(length(one) for one in inner))


def length(node: ast.AST) -> int:
    """Returns the number of characters of a node."""
    return len(ast.unparse(node))


def apply(tree: ast.Module, edits: Iterable[Edit]) -> ast.Module:
    """Returns a new tree with the edits applied; if two change the same node, the first one wins."""
    changes: dict[ast.AST, Change] = {}
    for edit in edits:
        if not any(node in changes for node in edit.changes):
            changes.update(edit.changes)

    def rebuild(node: ast.AST) -> Result:
        change = changes.get(node)
        return copy_with(node, rebuild) if change is None else change(rebuild)

    module = copy_with(tree, rebuild)
    assert isinstance(module, ast.Module)
    return module


def copy_with(node: ast.AST, rebuild: Rebuild) -> ast.AST:
    """Copies one node, with ``rebuild`` applied to its children."""
    fields: dict[str, object] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            fields[name] = [
                part
                for item in value
                for part in (_as_list(rebuild(item)) if isinstance(item, ast.AST) else [item])
            ]
        elif isinstance(value, ast.AST):
            parts = _as_list(rebuild(value))
            fields[name] = parts[0] if parts else None
        else:
            fields[name] = value
    _fill_blocks(node, fields)
    return ast.copy_location(type(node)(**fields), node)


def _as_list(result: Result) -> list[ast.AST]:
    if result is None:
        return []
    return [result] if isinstance(result, ast.AST) else list(result)


def _fill_blocks(node: ast.AST, fields: dict[str, object]) -> None:
    body = fields.get("body")
    if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)) and body == []:
        fields["body"] = [ast.Pass()]
    if isinstance(node, ast.Try) and not fields["handlers"] and not fields["finalbody"]:
        fields["finalbody"] = [ast.Pass()]


def parse(source: str) -> ast.Module:
    """Parses a script without its syntax warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def compiles(source: str) -> bool:
    """Whether the source compiles; unlike parsing, this detects ``return`` outside a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<candidate>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def render(tree: ast.Module) -> str | None:
    """Renders a tree as readable source; None if it is not a valid program."""
    body = sorted_imports(tree.body)
    text = ""
    try:
        for before, node in zip([None, *body], body, strict=False):
            text += _gap(before, node) + _text(node) + "\n"
    except (AttributeError, TypeError, ValueError):
        return None  # an edit removed what the grammar requires, such as the value of an assignment
    return text if compiles(text) else None


def _text(node: ast.stmt) -> str:
    lines = ast.unparse(ast.fix_missing_locations(node)).strip("\n").split("\n")
    opening = len(node.decorator_list) + 1 if isinstance(node, ast.ClassDef) else len(lines)
    if lines[opening : opening + 1] == [""]:
        del lines[opening]  # the blank line between the head of a class and its first method
    return "\n".join(lines)


def _gap(before: ast.stmt | None, node: ast.stmt) -> str:
    if before is None:
        return ""
    if isinstance(before, DEFINITIONS) or isinstance(node, DEFINITIONS):
        return "\n\n"
    return "\n" if isinstance(before, IMPORTS) and not isinstance(node, IMPORTS) else ""


def sorted_imports(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Sorts the leading imports: ``from __future__``, ``import``, ``from``; the rest keeps its order."""
    count = next((n for n, node in enumerate(body) if not isinstance(node, IMPORTS)), len(body))

    def rank(node: ast.stmt) -> int:
        if isinstance(node, ast.ImportFrom):
            return 0 if node.module == "__future__" else 2
        return 1

    return [*sorted(body[:count], key=rank), *body[count:]]


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yields the statement lists directly in a node."""
    for name in ("body", "orelse", "finalbody"):
        value = getattr(node, name, None)
        if isinstance(value, list) and value:
            yield value
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield handler.body


def levels(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yields the statements by depth: those of the module, then one block further in, and so on."""
    current: list[ast.stmt] = list(tree.body)
    while current:
        yield current
        current = [inner for node in current for block in blocks(node) for inner in block]


def parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Maps each node to its parent."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def size_of(source: str) -> tuple[int, int]:
    """Returns the size of a source: lines of statements except imports, then characters.

    Blank lines, comments and docstrings do not count. Text that is not Python counts by lines.
    """
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        lines = [line for line in source.splitlines() if line.strip()]
        return len(lines), len(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        text = text and isinstance(node.value.value, str)  # type: ignore[attr-defined]
        if isinstance(node, IMPORTS) or text:
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))  # type: ignore[attr-defined]
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in ignored and token.type != tokenize.ENDMARKER:
            used.update(range(token.start[0], token.end[0] + 1))
    return len(used - skipped), len(ast.unparse(tree))

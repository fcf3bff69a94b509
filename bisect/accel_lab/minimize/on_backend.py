"""Inserts an accelerator's backend into a script, so that the script fails without the lab."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: Name of the backend in the script.
NAME = "accelerator"


@dataclass(frozen=True, kw_only=True)
class Binding:
    """``code`` binds the backend to ``NAME``; the environment ``variables`` configure the accelerator."""

    code: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def put_into(self, source: str) -> str | None:
        """Returns the script on the accelerator; None if it has no ``torch.compile`` to change.

        Variables are set before all imports, unless the environment already sets them.
        """
        text = with_backend(source, self.code)
        if text is None or not self.variables:
            return text
        rows = [f"os.environ.setdefault({name!r}, {value!r})\n" for name, value in self.variables.items()]
        setting = "import os\n\n" + "".join(rows)
        lines = text.splitlines(keepends=True)
        first = _first_statement(ast.parse(text).body)
        return "".join([*lines[:first], setting, *lines[first:]])


def with_backend(source: str, binding: str) -> str | None:
    """Sets the backend of every ``torch.compile`` in the script; None if there is none by that name.

    Only these places change; ``binding`` is inserted after the leading imports.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()))
    data = source.encode()

    def at(line: int | None, column: int | None) -> int:
        assert line is not None and column is not None
        return starts[line - 1] + column

    edits: list[tuple[int, int, str]] = []
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_compile(node.func):
            called.add(id(node.func))
            given = next((k.value for k in node.keywords if k.arg == "backend"), None)
            if given is not None:
                place = at(given.lineno, given.col_offset), at(given.end_lineno, given.end_col_offset)
                edits.append((*place, NAME))
                continue
            values = sorted((at(v.end_lineno, v.end_col_offset) for v in _arguments(node)), reverse=True)
            end = values[0] if values else at(node.end_lineno, node.end_col_offset) - 1
            edits.append((end, end, f"{', ' if values else ''}backend={NAME}"))
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", ()):
            if _is_compile(decorator) and id(decorator) not in called:
                end = at(decorator.end_lineno, decorator.end_col_offset)
                edits.append((end, end, f"(backend={NAME})"))
    if not edits:
        return None
    head = at(*_behind_imports(tree.body))
    edits.append((head, head, f"{binding}\n" if head == 0 else f"\n{binding}"))
    for start, stop, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode() + data[stop:]
    text = data.decode()
    return text if _parses(text) else None


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _parses(text: str) -> bool:
    """Whether the text is valid: an edit may land inside the parentheses around an argument."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _is_compile(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "compile"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    )


def _behind_imports(body: Sequence[ast.stmt]) -> tuple[int, int]:
    """Returns the end of the leading imports and the docstring, as line and column."""
    end = (1, 0)
    for node in body:
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not words and not isinstance(node, (ast.Import, ast.ImportFrom)):
            break
        end = (node.end_lineno or 1, node.end_col_offset or 0)
    return end


def _first_statement(body: Sequence[ast.stmt]) -> int:
    """Returns the number of lines up to the end of the docstring and the ``__future__`` imports."""
    lines = 0
    for node in body:
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not words and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        lines = node.end_lineno or lines
    return lines

"""Tables of measurements: tab-separated, one line a row of a dataclass, so that a change shows in a diff."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")


def head_of(kind: type[Any]) -> tuple[str, ...]:
    """The columns of a table of such rows: the dataclass's fields."""
    return tuple(field.name for field in fields(kind))


def cells(row: Any) -> tuple[str, ...]:
    """A row's columns, each on one line."""
    return tuple(" ".join(str(getattr(row, name)).split()) for name in head_of(type(row)))


def read(path: Path, kind: type[R]) -> list[R]:
    """The rows of a table, in its order; none where there is no file. Fields of type int are converted.

    Raises ``ValueError`` for a file with other columns.
    """
    if not path.exists():
        return []
    head = head_of(kind)
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line]
    if not lines or tuple(lines[0]) != head or any(len(line) != len(head) for line in lines):
        raise ValueError(f"{path}: not a table with the columns {', '.join(head)}")
    numbers = {field.name for field in fields(kind) if field.type in (int, "int")}  # type: ignore[arg-type]
    return [
        kind(**{name: int(cell) if name in numbers else cell for name, cell in zip(head, line, strict=True)})
        for line in lines[1:]
    ]


def write(path: Path, kind: type[R], rows: Iterable[R]) -> None:
    """Writes the head and the rows, in the order that is given."""
    lines = [head_of(kind), *(cells(row) for row in rows)]
    path.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


def by_release(build: str) -> tuple[tuple[int, str], ...]:
    """A key to sort by: ``2.6.0`` comes before ``2.13.0``."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in build.split("."))

"""Converts a notebook to a script: code cells in order, with IPython-only lines left out and reported.

The file is untrusted JSON, so its size and structure are checked first.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accel_lab.core.errors import UsageError
from accel_lab.core.probe import Program
from accel_lab.core.text import shorten

SUFFIX = ".ipynb"
MAX_BYTES = 64 << 20
MAX_CELLS = 10_000
_LEFT_OUT = "# left out: "
#: Cell and line magics whose remainder is ordinary Python.
_RUN = ("time", "timeit", "capture", "prun")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_LINE_MAGIC = re.compile(
    r"^(?P<indent>\s*)(?:%(?P<magic>\w+)(?P<rest>.*)|!.*|\?{1,2}[\w.]+|[\w.]+\?{1,2}"
    r"|[\w,.][\w, .]*=\s*[%!]\w.*|get_ipython\(\).*)$"
)


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One code cell: its position among all cells, from 1, and its text."""

    number: int
    text: str


def script_of(data: bytes, path: Path) -> str:
    """Returns the notebook ``path`` as Python; raises :class:`UsageError` if it cannot be converted.

    The first line sets sys.path[0] to the notebook's folder, as for a script in that folder.
    """
    cells = list(_cells(_document(data, path), path))
    parts, future = [], ""
    for cell in cells:
        text = _plain_python(cell, path)
        text, moved = _without_future(text)
        future += moved
        parts.append(f"# cell {cell.number} of {path.name}\n{text.rstrip()}\n")
    body = "\n".join(parts)
    head = f"{future}import sys; sys.path[0] = {str(path.resolve().parent)!r}  # the notebook's folder\n"
    if re.search(r"\bdisplay\(", body):
        head += "display = print  # IPython's own is not there\n"
    source = head + "\n" + body
    try:
        compile(source, path.name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be run as a script: {getattr(error, 'msg', error)}") from None
    return source


def as_script(program: Program, folder: Path) -> Program:
    """Converts a notebook to a script in ``folder``; returns other programs unchanged."""
    if program.path is None or not program.path.endswith(SUFFIX):
        return program
    path = Path(program.path)
    target = folder / f"{path.name[: -len(SUFFIX)]}.py"
    target.write_text(script_of(path.read_bytes(), path), encoding="utf-8")
    return replace(program, path=str(target), origin=str(path))


def notebook_warnings(program: Program) -> list[str]:
    """Returns warnings about a script that was a notebook; empty for other programs."""
    if not program.origin or program.path is None:
        return []
    name = Path(program.origin).name
    left = [
        line.partition(_LEFT_OUT)[2]
        for line in Path(program.path).read_text(encoding="utf-8").splitlines()
        if _LEFT_OUT in line
    ]
    notes = [
        f"the code cells of {name} were run in order as one script, {program.path}: lines are counted there"
    ]
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        notes.append(f"left out of {name}, as only IPython knows it: {'; '.join(left[:5])}{more}")
    return notes


def _document(data: bytes, path: Path) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES >> 20} MB: clear its outputs, or name a script")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not a notebook: it is not JSON") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} is not a notebook: it has no cells")
    metadata = document.get("metadata")
    for name, key in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(name) if isinstance(metadata, dict) else None
        language = about.get(key) if isinstance(about, dict) else None
        if isinstance(language, str) and not language.lower().startswith(("python", "ipython")):
            raise UsageError(f"{path} is a notebook in {shorten(language, 40)}, not in Python")
    return document


def _cells(document: dict[str, Any], path: Path) -> Iterator[_Cell]:
    """Yields the code cells; in format 3 they are in worksheets and have the key ``input``."""
    sheets = document.get("worksheets")
    holders = sheets if isinstance(sheets, list) else [document]
    lists = [holder.get("cells") for holder in holders if isinstance(holder, dict)]
    rows = [row for found in lists if isinstance(found, list) for row in found]
    if len(rows) > MAX_CELLS:
        raise UsageError(f"{path} has more than {MAX_CELLS} cells")
    found_any = False
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or row.get("cell_type") != "code":
            continue
        source = row.get("source", row.get("input", ""))
        text = "".join(map(str, source)) if isinstance(source, list) else source
        if isinstance(text, str) and text.strip():
            found_any = True
            yield _Cell(number=number, text=text.replace("\r\n", "\n").replace("\x00", ""))
    if not found_any:
        raise UsageError(f"{path} is not a notebook with code: it has no code cells")


def _plain_python(cell: _Cell, path: Path) -> str:
    """Returns the cell without lines that are not Python; raises UsageError if the rest is invalid."""
    lines = cell.text.split("\n")
    first = next(n for n, line in enumerate(lines) if line.strip())
    magic = _CELL_MAGIC.match(lines[first])
    if magic is not None:
        said = f"{_LEFT_OUT}{_named(cell, lines[first])}"
        if magic[1] not in _RUN:
            return "\n".join([said + (" (the whole cell)"), *("# " + line for line in lines[first + 1 :])])
        lines[first] = said
    for _ in range(len(lines) + 1):
        wrong = _wrong_line(lines)
        if wrong is None:
            return "\n".join(lines)
        place = wrong if wrong < len(lines) and _LINE_MAGIC.match(lines[wrong]) else None
        if place is None:
            # The parser may report an error further down than the magic that causes it.
            place = next((n for n, line in enumerate(lines) if _LINE_MAGIC.match(line)), None)
        if place is None:
            break
        lines[place] = _without_magic(cell, lines[place])
    raise UsageError(f"{path}, cell {cell.number} is not valid Python (line {(wrong or 0) + 1} of the cell)")


def _wrong_line(lines: list[str]) -> int | None:
    """Returns the index of the line with a syntax error, or None."""
    try:
        ast.parse("\n".join(lines))
    except SyntaxError as error:
        return max(0, (error.lineno or 1) - 1)
    except (ValueError, RecursionError, MemoryError):
        return len(lines)
    return None


def _without_magic(cell: _Cell, line: str) -> str:
    match = _LINE_MAGIC.match(line)
    assert match is not None
    kept = match["rest"].strip() if match["magic"] in _RUN and match["rest"] else ""
    return f"{match['indent']}{kept or 'pass'}  {_LEFT_OUT}{_named(cell, line)}"


def _named(cell: _Cell, line: str) -> str:
    return f"cell {cell.number}, {shorten(line.strip(), 60)}"


def _without_future(text: str) -> tuple[str, str]:
    """Returns the text without its ``from __future__`` imports, and the imports, which must come first."""
    lines, moved = text.split("\n"), ""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            moved += ast.unparse(node) + "\n"
            for n in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[n] = "# " + lines[n]
    return "\n".join(lines), moved

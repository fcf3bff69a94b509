"""Prepares exhibits for the page: code with numbered and marked lines, coloured diffs, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel_lab.core.findings import Exhibit

from .text_budget import TextBudget, line_class

#: Texts and tables up to this length are open; longer ones are folded.
OPEN_LINES = 40
OPEN_ROWS = 15
MAX_LINES = 1_500
MAX_ROWS = 200
#: Lines shown around a marked line of a long text.
AROUND = 6
CELL_LIMIT = 2_000
MAX_EXHIBITS = 30

_FILES = {"python": "exhibit.py"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a text; ``number`` is empty for a gap, ``name`` is its CSS class."""

    number: str
    text: str
    name: str


@dataclass(frozen=True, kw_only=True)
class View:
    """The template's data for one exhibit.

    ``near`` are the lines around the marked ones of a long text, which is then folded as a whole.
    """

    title: str
    lines: tuple[Line, ...] = ()
    near: tuple[Line, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    open: bool = True
    open_table: bool = True
    numbered: bool = False
    more: str = ""


def views(exhibits: Sequence[Exhibit], budget: TextBudget) -> list[View]:
    """Returns the exhibits that fit into the rest of the page's budget."""
    return [view(exhibit, budget) for exhibit in exhibits[:MAX_EXHIBITS] if not budget.spent]


def view(exhibit: Exhibit, budget: TextBudget) -> View:
    """Returns one exhibit, redacted, cleaned and cut."""
    lines, total = _lines(exhibit, budget)
    left_out = total - len(lines)
    marked = [place for place, line in enumerate(lines) if "mark" in line.name]
    short = len(lines) <= OPEN_LINES
    near = () if short or not marked else joined(_near(lines, marked), total)
    rows = [tuple(budget.say(cell, limit=CELL_LIMIT) for cell in row) for row in exhibit.rows[: MAX_ROWS + 1]]
    budget.taken(sum(len(cell) for row in rows for cell in row))
    width = max((len(row) for row in rows), default=0)
    rows = [row + ("",) * (width - len(row)) for row in rows]
    more = [f"{left_out:,} lines are left out."] if left_out else []
    if len(exhibit.rows) > MAX_ROWS + 1:
        more.append(f"{len(exhibit.rows) - MAX_ROWS - 1:,} rows are left out.")
    return View(
        title=budget.say(exhibit.title or exhibit.kind, limit=600),
        lines=joined(lines, total),
        near=near,
        head=rows[0] if rows else (),
        rows=tuple(rows[1:]),
        open=short,
        open_table=len(rows) <= OPEN_ROWS + 1,
        numbered=exhibit.language in ("python", "cpp") or bool(marked),
        more=" ".join(more),
    )


def _lines(exhibit: Exhibit, budget: TextBudget) -> tuple[list[Line], int]:
    """Returns the lines that have room, those around marks first, and the total number of lines."""
    if not exhibit.text.strip():
        return [], 0
    shown = budget.whole(exhibit.text, _FILES.get(exhibit.language, "report.html")).rstrip("\n")
    texts = shown.split("\n")
    # Redaction may have removed whole lines; the marked line numbers are then invalid.
    same = len(texts) == len(exhibit.text.replace("\r\n", "\n").rstrip("\n").split("\n"))
    marked = {number - 1 for number in exhibit.marked if same and number <= len(texts)}
    picked = _picked(texts, marked, budget.room())
    budget.taken(sum(len(texts[place]) for place in picked))
    lines = []
    for place in picked:
        name = line_class(texts[place]) if exhibit.language == "diff" else "same"
        lines.append(
            Line(
                number=str(place + 1),
                text=texts[place][:CELL_LIMIT],
                name=f"{name} mark" if place in marked else name,
            )
        )
    return lines, len(texts)


def joined(lines: Sequence[Line], total: int) -> tuple[Line, ...]:
    """Returns the lines with a note wherever lines between them are not shown."""
    found: list[Line] = []
    before = 0
    for line in lines:
        if int(line.number) != before + 1:
            found.append(gap(int(line.number) - before - 1))
        found.append(line)
        before = int(line.number)
    if before < total:
        found.append(gap(total - before))
    return tuple(found)


def gap(count: int) -> Line:
    """Returns a line that stands for lines not shown."""
    return Line(number="", text=f"[... {count:,} line{'' if count == 1 else 's'} ...]", name="gap")


def _picked(texts: Sequence[str], marked: set[int], room: int) -> list[int]:
    """Returns the indices of lines that have room: marked lines with their surroundings, then the rest."""
    near = sorted({at for m in marked for at in range(m - AROUND, m + AROUND + 1) if 0 <= at < len(texts)})
    seen = set(near)
    picked: list[int] = []
    for place in (*near, *(at for at in range(len(texts)) if at not in seen)):
        room -= min(len(texts[place]), CELL_LIMIT) + 1
        if len(picked) >= MAX_LINES or (room < 0 and picked):
            break
        picked.append(place)
    return sorted(picked)


def _near(lines: Sequence[Line], marked: Sequence[int]) -> list[Line]:
    places = sorted({at for m in marked for at in range(m - AROUND, m + AROUND + 1) if 0 <= at < len(lines)})
    return [lines[place] for place in places[: 2 * OPEN_LINES]]

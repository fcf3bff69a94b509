"""Renders a benchmark as plain text: one table per model, with remarks below. Prints nothing."""

from __future__ import annotations

from tabulate import tabulate

from accel_lab.core.benchmark import Benchmark, Measurement
from accel_lab.core.text import printable
from accel_lab.reporting.words import bench as words

from .findings import paint, wrapped


def text(benchmark: Benchmark, *, colour: bool = False, unicode: bool = True, width: int = 120) -> str:
    """Returns the verdict, a table for each model, and remarks."""
    said, mark = words.verdict(benchmark)
    summary = wrapped(f"{said}  {words.summary(benchmark)}", width, hang="  ")
    blocks = [paint(said, mark.name, colour) + summary.removeprefix(said)]
    blocks += [wrapped(f"note: {line}", width, hang="  ") for line in words.cautions(benchmark)]
    if benchmark.compared is not None:
        lines = [words.compared_title(benchmark), *words.changes(benchmark)]
        blocks.append("\n".join(wrapped(line, width, hang="  ") for line in lines))
    for model in benchmark.models:
        blocks.append(_model(benchmark, model, colour, unicode, width))
    return "\n\n".join(blocks)


def _model(benchmark: Benchmark, model: str, colour: bool, unicode: bool, width: int) -> str:
    lines = [paint(wrapped(words.title(benchmark, model), width), "bold", colour)]
    rows = [row for row in benchmark.of(model) if row.backend]
    if rows:
        lines += _table(rows, colour, unicode)
    for row in benchmark.of(model):
        head = f"{row.backend}: " if row.backend else ""
        lines += [wrapped(head + remark, width, hang="  ") for remark in words.remarks(row)]
    return "\n".join(lines)


def _table(rows: list[Measurement], colour: bool, unicode: bool) -> list[str]:
    """Renders the rows; empty columns are dropped, and colour is added once the widths are known."""
    columns = [column for column in words.COLUMNS if any(column.cell(row) for row in rows)]
    head = [("", "backend"), ("", "result"), *(column.head for column in columns)]
    cells = [
        [printable(row.backend), _result(row, unicode), *(column.cell(row) for column in columns)]
        for row in rows
    ]
    # The heading is passed as rows: tabulate would make each column two wider than its heading.
    tall = [[part[0] for part in head], [part[1] for part in head]]
    ruler = ["-" * max(len(row[n]) for row in [*tall, *cells]) for n in range(len(head))]
    lines = tabulate(
        [*tall, ruler, *cells],
        tablefmt="plain",
        disable_numparse=True,
        colalign=("left", "left", *("right" for _ in columns)),
    ).splitlines()
    lines = [line.rstrip() for line in lines]
    if not colour:
        return lines
    for place, row in enumerate(rows, len(lines) - len(rows)):
        said = _result(row, unicode)
        lines[place] = lines[place].replace(said, paint(said, words.MARKS[row.standing].name, True), 1)
    return lines


def _result(row: Measurement, unicode: bool) -> str:
    mark = words.MARKS[row.standing]
    return f"{mark.symbol if unicode else mark.ascii} {mark.words}"

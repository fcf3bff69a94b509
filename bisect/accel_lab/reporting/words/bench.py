"""Describes a benchmark: the columns of its tables and the remarks, for terminal and page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accel_lab.core.benchmark import Benchmark, Change, Measurement, RowChange, RowStatus

from .terms import Mark

MARKS: dict[RowStatus, Mark] = {
    RowStatus.OK: Mark(name="good", symbol="✓", ascii="+", words="ok"),
    RowStatus.DIFFERS: Mark(name="bad", symbol="≠", ascii="!", words="differs"),
    RowStatus.FAILED: Mark(name="bad", symbol="✗", ascii="x", words="failed"),
    RowStatus.SKIPPED: Mark(name="na", symbol="·", ascii="-", words="skipped"),
}
#: Maximum reasons and names listed for one row; the rest is counted.
MOST_LISTED = 6


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of numbers: two short heading lines, what the numbers mean, and the cells."""

    head: tuple[str, str]
    means: str
    cell: Callable[[Measurement], str]


def _median(row: Measurement) -> str:
    return figure(row.latency_ms.median if row.latency_ms else None)


def _range(row: Measurement) -> str:
    return figure(row.latency_ms.iqr if row.latency_ms else None)


def _ratio(row: Measurement) -> str:
    return "" if row.ratio_to_eager is None else f"{row.ratio_to_eager:.2f}"


def _breaks(row: Measurement) -> str:
    return total(row.graph_breaks)


COLUMNS: tuple[Column, ...] = (
    Column(
        head=("first", "call s"),
        means="Seconds of the first call, compilation included, with empty caches; imports are not counted.",
        cell=lambda row: figure(row.first_call_s),
    ),
    Column(head=("median", "ms"), means="Median of the timed calls, in milliseconds.", cell=_median),
    Column(head=("IQR", "ms"), means="Interquartile range: half of the calls lie within it.", cell=_range),
    Column(
        head=("times", "eager"),
        means="The median over that of eager calls interleaved with it, in the same process.",
        cell=_ratio,
    ),
    Column(
        head=("peak", "MB"),
        means="Peak memory of later calls, less what the process held before the model was made.",
        cell=lambda row: figure(row.peak_mb),
    ),
    Column(head=("", "graphs"), means="Graphs that Dynamo captured.", cell=lambda row: whole(row.graphs)),
    Column(head=("", "breaks"), means="Graph breaks.", cell=_breaks),
    Column(
        head=("", "kernels"),
        means="Kernels that the backend generated.",
        cell=lambda row: whole(row.kernels),
    ),
    Column(
        head=("viola-", "tions"),
        means="Violations of the accelerator's constraints.",
        cell=lambda row: total(row.violations),
    ),
    Column(
        head=("host", "ops"),
        means="Operators that fell back to the host.",
        cell=lambda row: total(row.fallbacks),
    ),
    Column(
        head=("error to", "eager"),
        means="Greatest absolute difference to eager's results.",
        cell=lambda row: error(row.distance.to_eager if row.distance else None),
    ),
    Column(
        head=("error to", "float64"),
        means="Greatest absolute difference to a float64 run with the same weights.",
        cell=lambda row: error(row.distance.to_float64 if row.distance else None),
    ),
)


def figure(value: float | None) -> str:
    """Returns a measured quantity with three digits; empty if None."""
    if value is None:
        return ""
    if not math.isfinite(value):
        return str(value)
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.{min(2 - math.floor(math.log10(value)), 3)}f}"


def error(value: float | None) -> str:
    """Returns an error with two digits; empty if None."""
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-")


def whole(value: int | None) -> str:
    """Returns a count as text; empty if None."""
    return "" if value is None else str(value)


def total(counts: Mapping[str, int] | None) -> str:
    """Returns the sum of counts by name as text; empty if None."""
    return "" if counts is None else str(sum(counts.values()))


def remarks(row: Measurement) -> list[str]:
    """Returns remarks: why a row failed, what broke the graph, what was violated or ran on the host."""
    said = []
    if row.reason:
        said.append(f"{row.standing.value}: {row.reason}")
    for name, counts in (
        ("graph break", row.graph_breaks),
        ("constraint violated", row.violations),
        ("on the host", row.fallbacks),
    ):
        said += _counted(name, counts)
    return said + _violated(row) + _parts(row) + list(row.notes)


def _violated(row: Measurement) -> list[str]:
    left = len(row.violation_lines) - MOST_LISTED
    shown = list(row.violation_lines[:MOST_LISTED])
    return [*shown, f"{left} more violations with their lines: see bench.json"] if left > 0 else shown


def _parts(row: Measurement) -> list[str]:
    """Says where a call's time goes, as the backend reports it; parts below one percent are left out."""
    parts = {name: ms for name, ms in (row.parts_ms or {}).items() if ms > 0}
    whole_ms = sum(parts.values())
    shares = sorted(((ms / whole_ms, name) for name, ms in parts.items()), reverse=True)
    shown_parts = [f"{name.replace('_', ' ')} {share:.0%}" for share, name in shares if share >= 0.01]
    return [f"where the time of a call goes: {', '.join(shown_parts)}"] if shown_parts else []


def _counted(name: str, counts: Mapping[str, int] | None) -> list[str]:
    ordered = sorted((counts or {}).items(), key=lambda pair: (-pair[1], pair[0]))
    said = [
        f"{name}: {_first_line(what)}" + (f" ({count} times)" if count > 1 else "") for what, count in ordered
    ]
    left = len(said) - MOST_LISTED
    return said if left <= 0 else [*said[:MOST_LISTED], f"{name}: {left} more kinds, see bench.json"]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def title(benchmark: Benchmark, model: str) -> str:
    """Returns the model's name as a heading, with its number of parameters if known."""
    known = next((row.parameters for row in benchmark.of(model) if row.parameters), None)
    size = ""
    if known:
        size = f", {known / 1e6:.1f} million parameters" if known >= 1e6 else f", {known:,} parameters"
    small = ", small" if benchmark.settings.get("size") == "small" else ""
    return f"{benchmark.titles.get(model, model)}{small}{size}"


def cautions(benchmark: Benchmark) -> list[str]:
    """Returns warnings on the quality of the times: a busy machine."""
    load, cpus = benchmark.environment.get("load_at_start"), benchmark.environment.get("cpus")
    if not load or not cpus or load < cpus / 2:
        return []
    return [
        f"the machine was busy when this began (load {load:.1f} on {cpus} CPUs): times are longer and spread"
        " wider than on a quiet one"
    ]


#: The change of a row in words; its figures follow.
CHANGES: dict[Change, str] = {
    Change.SLOWER: "slower",
    Change.BROKEN: "results now wrong",
    Change.MACHINE: "slower, as are the eager calls measured with it: the machine, not the backend",
    Change.FASTER: "faster",
    Change.SAME: "no difference beyond chance",
    Change.TOO_FEW: "too few calls to tell; take more --runs",
    Change.NEW: "not in the earlier benchmark",
    Change.GONE: "only in the earlier benchmark",
}


def changes(benchmark: Benchmark) -> list[str]:
    """Describes each row against the earlier benchmark, regressions first; empty without one."""
    if benchmark.compared is None:
        return []
    order = list(CHANGES)
    rows = sorted(benchmark.compared.rows, key=lambda row: order.index(row.change))
    return [change_line(row) for row in rows]


def change_line(row: RowChange) -> str:
    """Describes one row against the earlier benchmark."""
    said = f"{row.model} {row.backend}: {CHANGES[row.change]}"
    if row.words:
        said += f" ({row.words})"
    if row.base_ms is not None and row.now_ms is not None and row.ratio is not None:
        said += f": {figure(row.base_ms)} ms, now {figure(row.now_ms)} ms ({row.ratio:.2f} times"
        said += f", p = {row.chance:.2g})" if row.chance is not None else ")"
    return said


def compared_title(benchmark: Benchmark) -> str:
    """Names the earlier benchmark, and counts the regressions; ``compared`` must not be None."""
    assert benchmark.compared is not None
    count = len(benchmark.compared.regressions)
    against = f"torch {benchmark.compared.torch}" if benchmark.compared.torch else "an unknown torch"
    what = f"{count} regression{'s' * (count != 1)}" if count else "no regression"
    return f"Compared with {benchmark.compared.base} ({against}): {what}"


def verdict(benchmark: Benchmark) -> tuple[str, Mark]:
    """Returns the verdict of the whole run, with a mark."""
    if not benchmark.complete:
        return "INTERRUPTED", MARKS[RowStatus.SKIPPED]
    if benchmark.compared is not None and benchmark.compared.regressions:
        return "REGRESSION", MARKS[RowStatus.FAILED]
    if benchmark.count(RowStatus.DIFFERS):
        return "RESULTS DIFFER", MARKS[RowStatus.DIFFERS]
    if benchmark.count(RowStatus.FAILED):
        return "SOME FAILED", MARKS[RowStatus.FAILED]
    if not benchmark.count(RowStatus.OK):
        return "NOTHING MEASURED", MARKS[RowStatus.SKIPPED]
    return "MEASURED", MARKS[RowStatus.OK]


def summary(benchmark: Benchmark) -> str:
    """Summarises the run in one sentence."""
    settings = benchmark.settings
    what = "a training step" if settings.get("train") else "inference"
    counts = ", ".join(
        f"{benchmark.count(standing)} {word}"
        for standing, word in (
            (RowStatus.OK, "measured and correct"),
            (RowStatus.DIFFERS, "with other results than eager"),
            (RowStatus.FAILED, "failed"),
            (RowStatus.SKIPPED, "skipped"),
        )
        if benchmark.count(standing)
    )
    return (
        f"{what}, {settings.get('size')} size, {settings.get('dtype')} on {settings.get('device')},"
        f" up to {settings.get('runs')} timed calls: {counts or 'no row'}"
    )

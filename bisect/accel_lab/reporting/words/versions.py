"""The version axis in words: which release brought the failure, which mended it, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import terms
from .terms import Mark

_MARKS = {mark.name: mark for mark in (terms.GOOD, terms.BAD, terms.DIFFERENT, terms.SKIP)}
#: A release of the line that nobody needed to ask.
UNASKED = Mark(name="na", symbol="·", ascii=".", words="not asked")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One release of the line, asked or not."""

    torch: str
    mark: Mark
    why: str = ""
    where: str = ""
    runs: str = ""
    environment: str = ""
    number: str = ""


def flip_line(flip: Mapping[str, Any]) -> str:
    """One flip: ``introduced in 2.5.0 (good: 2.4.1)``; a range where releases between could not be judged."""
    kind = str(flip.get("kind", "changed")).replace("_", " ")
    after, at = str(flip.get("after", "?")), str(flip.get("at", "?"))
    known = "bad" if kind == "fixed" else "good"
    between = [str(v) for v in _list(flip.get("between"))]
    where = f"in {at}"
    if between:
        where = f"in {at} or one before it ({', '.join(between)} could not be judged)"
    sure = flip.get("confidence")
    chance = f", {sure:.1%} sure" if isinstance(sure, (int, float)) else ""
    return f"{kind} {where} ({known}: {after}{chance})"


def change_line(change: Mapping[str, Any]) -> str:
    """The piece of torch's sources that moved the failure, and what was run to show it."""
    runs = change.get("runs", 0)
    if not change.get("found"):
        return f"the change was not found ({runs} runs): {change.get('why', '')}"
    pieces = [
        f"{row['symbol']} in {row['file']}" for row in _list(change.get("pieces")) if isinstance(row, Mapping)
    ]
    names = "; ".join(pieces[:3]) + (f"; {len(pieces) - 3} more" if len(pieces) > 3 else "")
    if not change.get("complete", True):
        return f"the change is in {names} ({runs} runs, not narrowed down further in the time given)"
    proof = {
        True: "the failure goes and comes with it",
        False: "the failing release passes with it exchanged, but the passing one does not fail with it: "
        "it may hide the failure rather than mend it",
        None: "the failing release passes with it exchanged; the other direction was not asked",
    }[change.get("both_ways")]
    return f"the change is {names} ({proof}; {runs} runs)"


def headline(versions: Mapping[str, Any] | None) -> str:
    """All flips in one line; what the whole line says where there is none; empty without an axis."""
    if not versions:
        return ""
    flips = [flip for flip in _list(versions.get("flips")) if isinstance(flip, Mapping)]
    parts = [flip_line(flip) for flip in flips]
    own = _own(versions)
    if own.get("sentence"):
        parts.insert(0 if own.get("relation") == "before" else len(parts), str(own["sentence"]))
    if parts:
        return ", ".join(parts)
    notes = [str(note) for note in _list(versions.get("notes"))]
    return notes[0] if notes else str(versions.get("why") or "")


def _own(versions: Mapping[str, Any]) -> Mapping[str, Any]:
    """The user's own build, which passes, where that says something of the line."""
    own = versions.get("own")
    return own if isinstance(own, Mapping) else {}


def notes_of(versions: Mapping[str, Any]) -> list[str]:
    """What qualifies the answer: the second axis, what could not be judged, where it was cut short."""
    axes = versions.get("axes")
    lines = []
    if isinstance(axes, Mapping):
        lines += [str(axes.get("sentence") or ""), *(str(note) for note in _list(axes.get("notes")))]
    headline_text = headline(versions)
    for flip in _list(versions.get("flips")):
        if isinstance(flip, Mapping) and flip.get("change"):
            lines.append(f"{flip.get('after', '?')} to {flip.get('at', '?')}: {change_line(flip['change'])}")
    lines += [str(note) for note in _list(versions.get("notes"))]
    if not versions.get("complete", True) and versions.get("why"):
        lines.append(f"not complete: {versions['why']}")
    sure = versions.get("confidence")
    if isinstance(sure, (int, float)):
        lines.append(f"all verdicts on the line together are right with a chance of {sure:.1%}")
    return [line for line in dict.fromkeys(lines) if line and line != headline_text]


def advice(versions: Mapping[str, Any] | None) -> list[str]:
    """What the reader can do about it by taking another release."""
    if not versions or versions.get("metric"):
        return []
    own = _own(versions)
    if own.get("relation") == "fixed_by":
        return [f"Use torch {own.get('torch')}, your own build, or newer: the failure is gone there"]
    flips = [flip for flip in _list(versions.get("flips")) if isinstance(flip, Mapping)]
    if not flips:
        return [f"Until it is fixed: torch {own['torch']} does not have it"] if own.get("torch") else []
    last = flips[-1]
    if last.get("kind") == "fixed":
        return [f"Use torch {last.get('at')} or newer: the failure is gone there"]
    return [f"Until it is fixed: torch {last.get('after')} does not have it"]


def rows_of(versions: Mapping[str, Any]) -> list[Row]:
    """Every release of the line, oldest first; those that were not asked too."""
    tested = {
        str(row.get("torch", "")): row for row in _list(versions.get("tested")) if isinstance(row, Mapping)
    }
    line = [str(version) for version in _list(versions.get("line"))] or list(tested)
    missing = [name for name in tested if name not in line]
    return [_row(name, tested.get(name)) for name in (*line, *missing)]


def _row(name: str, row: Mapping[str, Any] | None) -> Row:
    if row is None:
        return Row(torch=name, mark=UNASKED)
    headline_text = str(row.get("why") or row.get("signature") or "")
    runs = row.get("runs")
    return Row(
        torch=name,
        mark=_MARKS.get(str(row.get("verdict", "")), terms.SKIP),
        why=headline_text,
        where=", ".join(str(part) for part in (row.get("stage"), row.get("component")) if part),
        runs=str(runs) if isinstance(runs, int) else "",
        environment=environment_line(row.get("environment")),
        number=_number(row.get("metric")),
    )


def _number(metric: object) -> str:
    """The number that was measured, where one is looked for."""
    if not isinstance(metric, Mapping) or not isinstance(metric.get("median"), (int, float)):
        return ""
    ratio = metric.get("ratio")
    times = f" ({ratio:.2f}x)" if isinstance(ratio, (int, float)) else ""
    return f"{metric['median']:.4g} {metric.get('unit', '')}".strip() + times


def environment_line(environment: object) -> str:
    """What a release was run in: the provider, Python, numpy, whether slim, how long it took to make."""
    if not isinstance(environment, Mapping):
        return ""
    spec, made = environment.get("spec"), environment.get("provenance")
    parts = []
    if isinstance(spec, Mapping):
        parts.append(str(spec.get("provider", "")) + (", slim" if spec.get("slim") else ""))
    if isinstance(made, Mapping):
        if made.get("python"):
            parts.append(f"Python {made['python']}")
        packages = made.get("packages")
        if isinstance(packages, Mapping):
            parts += [f"{name} {packages[name]}" for name in ("numpy", "triton") if packages.get(name)]
    seconds, size = environment.get("seconds"), environment.get("size_bytes")
    if isinstance(seconds, (int, float)) and not environment.get("cached") and seconds > 0:
        parts.append(f"made in {seconds:.0f} s")
    if isinstance(size, (int, float)) and size > 0:
        parts.append(f"{size / 1e6:,.0f} MB")
    return "; ".join(part for part in parts if part)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


__all__ = ["UNASKED", "Row", "advice", "environment_line", "flip_line", "headline", "notes_of", "rows_of"]

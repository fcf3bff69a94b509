"""Describes the version axis: the releases that introduced and fixed the failure, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.releases.flip_change import FlipChange
from accel_lab.core.releases.versions import Flip, Measurement, Tested, Versions

from . import terms
from .terms import Mark

_MARKS = {mark.name: mark for mark in (terms.GOOD, terms.BAD, terms.DIFFERENT, terms.SKIP)}
#: A release of the line that did not need a run.
UNASKED = Mark(name="na", symbol="·", ascii=".", words="not run")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One release of the line, whether it was run or not."""

    torch: str
    mark: Mark
    why: str = ""
    where: str = ""
    runs: str = ""
    environment: str = ""
    number: str = ""


def flip_line(flip: Flip) -> str:
    """Describes a flip: ``introduced in 2.5.0 (good: 2.4.1)``, with releases that could not be judged."""
    kind = flip.kind.replace("_", " ")
    known = "bad" if kind == "fixed" else "good"
    where = f"in {flip.at}"
    if flip.between:
        where = f"in {flip.at} or one before it ({', '.join(flip.between)} could not be judged)"
    chance = f", {flip.confidence:.1%} sure" if flip.confidence is not None else ""
    return f"{kind} {where} ({known}: {flip.after}{chance})"


def change_line(change: FlipChange) -> str:
    """Describes the piece of torch's sources that moved the failure, and the runs that show it."""
    if not change.found:
        return f"the change was not found ({change.runs} runs): {change.why}"
    pieces = [f"{piece.symbol} in {piece.file}" for piece in change.pieces]
    names = "; ".join(pieces[:3]) + (f"; {len(pieces) - 3} more" if len(pieces) > 3 else "")
    if not change.complete:
        return f"the change is in {names} ({change.runs} runs, not narrowed down further in the time given)"
    proof = {
        True: "exchanging it moves the failure, both ways",
        False: "the failing release passes with it exchanged, but the passing one does not fail with it: "
        "it may hide the failure rather than fix it",
        None: "the failing release passes with it exchanged; the other direction gave no answer",
    }[change.both_ways]
    return f"the change is {names} ({proof}; {change.runs} runs)"


def commit_lines(change: FlipChange) -> list[str]:
    """Lists the commits that touched the piece, from a clone; without one, commands that show them."""
    if change.commits:
        return [
            f"commit {commit.sha[:12]}: {commit.subject}"
            + (f" (pull request #{commit.pull})" if commit.pull else "")
            for commit in change.commits
        ]
    if change.commits is not None:
        return ["no commit between the two tags touched those lines in the clone"]
    why = f" ({change.git})" if change.git else ""
    return [f"its commits, in a clone of PyTorch{why}: {command}" for command in change.log[:3]]


def headline(versions: Versions | None) -> str:
    """Returns all flips in one line; without any, what the line shows; empty without an axis."""
    if versions is None:
        return ""
    parts = [flip_line(flip) for flip in versions.flips]
    own = versions.own
    if own is not None and own.sentence:
        parts.insert(0 if own.relation == "before" else len(parts), own.sentence)
    if parts:
        return ", ".join(parts)
    return versions.notes[0] if versions.notes else versions.why


def notes_of(versions: Versions) -> list[str]:
    """Returns notes on the answer: the stages, what could not be judged, where it was cut short."""
    axes = versions.axes
    lines = [axes.sentence, *axes.notes] if axes is not None else []
    for flip in versions.flips:
        if flip.change is not None:
            lines.append(f"{flip.after} to {flip.at}: {change_line(flip.change)}")
            lines += commit_lines(flip.change)
    headline_text = headline(versions)
    lines += versions.notes
    if not versions.complete and versions.why:
        lines.append(f"not complete: {versions.why}")
    if versions.confidence is not None:
        lines.append(f"probability that all verdicts on the line are right: {versions.confidence:.1%}")
    return [line for line in dict.fromkeys(lines) if line and line != headline_text]


def rows_of(versions: Versions) -> list[Row]:
    """Returns every release of the line, oldest first, including those not run."""
    tested = {row.torch: row for row in versions.tested}
    return [_row(name, tested.get(name)) for name in dict.fromkeys((*versions.line, *tested))]


def _row(name: str, row: Tested | None) -> Row:
    if row is None:
        return Row(torch=name, mark=UNASKED)
    return Row(
        torch=name,
        mark=_MARKS[row.verdict.value],
        why=row.why or row.signature,
        where=", ".join(part for part in (row.stage, row.component) if part),
        runs=str(row.runs),
        environment=environment_line(row.environment),
        number=_number(row.metric),
    )


def _number(metric: Measurement | None) -> str:
    if metric is None or metric.median is None:
        return ""
    times = f" ({metric.ratio:.2f}x)" if metric.ratio is not None else ""
    return f"{metric.median:.4g} {metric.unit}".strip() + times


def environment_line(environment: object) -> str:
    """Describes a release's environment: provider, Python, numpy, slim or not, time to make, size."""
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

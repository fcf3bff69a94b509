"""Builds the report's section "Since when": the line of releases, and what differs at each flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accel_lab.core.findings import Exhibit
from accel_lab.core.releases.flip_details import (
    Blame,
    CodePair,
    FileChanges,
    FlipDetails,
    MetricPair,
    SideRow,
)
from accel_lab.core.releases.versions import Flip, Versions
from accel_lab.core.text import capital
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words import terms
from accel_lab.reporting.words import versions as since
from accel_lab.reporting.words.terms import Mark
from accel_lab.reporting.words.versions import Row

from .exhibits import View, view
from .text_budget import Shown, TextBudget

#: The picture: one box per release, ``_PER_ROW`` in a row.
_BOX = 92
_PER_ROW = 10
_ROW = 46

_MARKS = {mark.name: mark for mark in (terms.GOOD, terms.BAD, terms.DIFFERENT, terms.SKIP)}
_CODE = {
    "kernel": ("cpp", "The generated kernels"),
    "output_code": ("python", "The generated code"),
    "post_grad": ("python", "The graph after all passes"),
}


@dataclass(frozen=True, kw_only=True)
class Stop:
    """One release in the picture of the line."""

    x: int
    y: int
    width: int
    name: str
    symbol: str
    torch: str
    said: str
    turns: bool


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Two texts side by side."""

    title: str
    good: View
    bad: View
    same: bool


@dataclass(frozen=True, kw_only=True)
class FlipView:
    """One flip: its line, its notes, both ladders, the changed files, the code of both sides."""

    title: str
    notes: tuple[str, ...]
    good: str = ""
    bad: str = ""
    rungs: tuple[tuple[str, Mark, Mark], ...] = ()
    files: View | None = None
    diffs: tuple[Shown, ...] = ()
    code: tuple[SideBySide, ...] = ()
    swaps: tuple[tuple[str, str, Mark], ...] = ()
    numbers: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class VersionsView:
    """The template's data for the version axis."""

    headline: str
    notes: tuple[str, ...]
    stops: tuple[Stop, ...]
    width: int
    height: int
    rows: tuple[Row, ...]
    flips: tuple[FlipView, ...]
    numbers: bool


def versions_view(versions: Versions | None, texts: TextBudget) -> VersionsView | None:
    """Returns the section, redacted and within the page's budget; None if no releases were run."""
    if versions is None:
        return None
    rows = [_told(row, texts) for row in since.rows_of(versions)]
    turns = {flip.at for flip in versions.flips}
    across = max(1, min(len(rows), _PER_ROW))
    return VersionsView(
        headline=texts.say(since.headline(versions)),
        notes=tuple(texts.say(line, limit=2000) for line in since.notes_of(versions)),
        stops=tuple(_stop(row, place, row.torch in turns) for place, row in enumerate(rows)),
        width=across * _BOX + 4,
        height=-(-len(rows) // across) * _ROW + 4,
        rows=tuple(rows),
        flips=tuple(_flip(flip, texts) for flip in versions.flips),
        numbers=any(row.number for row in rows),
    )


def _told(row: Row, texts: TextBudget) -> Row:
    return Row(
        torch=texts.say(row.torch, limit=80),
        mark=row.mark,
        why=texts.say(row.why, limit=500),
        where=texts.say(row.where, limit=200),
        runs=row.runs,
        environment=texts.say(row.environment, limit=300),
        number=texts.say(row.number, limit=80),
    )


def _stop(row: Row, place: int, turns: bool) -> Stop:
    return Stop(
        x=2 + (place % _PER_ROW) * _BOX,
        y=2 + (place // _PER_ROW) * _ROW,
        width=_BOX - 6,
        name=row.mark.name,
        symbol=row.mark.symbol,
        torch=row.torch[:12],
        said=row.mark.words,
        turns=turns,
    )


def _flip(flip: Flip, texts: TextBudget) -> FlipView:
    details = flip.details or FlipDetails(good=SideRow(), bad=SideRow())
    good, bad = details.good, details.bad
    return FlipView(
        title=texts.say(capital(since.flip_line(flip)), limit=400),
        notes=tuple(texts.say(note, limit=1000) for note in (*_change(flip), *flip.notes)),
        good=texts.say(good.torch, limit=80),
        bad=texts.say(bad.torch, limit=80),
        rungs=tuple(_rungs(good, bad)),
        files=_files(details.files, texts),
        diffs=(*_change_diff(flip, texts), *_diffs(details.files, texts)),
        code=tuple(_code(details.code, texts)),
        swaps=tuple(_swaps(details.companions, texts)),
        numbers=tuple(_numbers(details.numbers, texts)),
    )


def _rungs(good: SideRow, bad: SideRow) -> list[tuple[str, Mark, Mark]]:
    """Returns both ladders, rung by rung, lowest first."""
    one, two = ({step.rung[:40]: _mark(step.verdict) for step in side.ladder or ()} for side in (good, bad))
    return [(rung, one.get(rung, since.UNASKED), two.get(rung, since.UNASKED)) for rung in {**one, **two}]


def _mark(verdict: Verdict) -> Mark:
    return _MARKS.get(verdict.value, terms.SKIP)


def _files(files: FileChanges | None, texts: TextBudget) -> View | None:
    if files is None or not files.changed:
        return None
    rows = [("file", "lines added", "lines removed", "")]
    for row in files.changed:
        near = "the failure's traceback goes through it" if row.near else ""
        names = "lines that differ name the culprit" if row.names else ""
        how = "" if row.how == "changed" else row.how
        said = "; ".join(part for part in (how, names, near) if part)
        rows.append((row.path, str(row.added), str(row.removed), said))
    title = files.said or "Files of the failing stage that differ"
    title += f" ({files.more} are not listed)" if files.more else ""
    return view(Exhibit(kind="files", title=capital(title), rows=tuple(rows)), texts)


def _change(flip: Flip) -> list[str]:
    if flip.change is None:
        return []
    return [capital(line) for line in (since.change_line(flip.change), *since.commit_lines(flip.change))]


def _change_diff(flip: Flip, texts: TextBudget) -> list[Shown]:
    """Returns the smallest difference of torch's sources that moves the failure, if there is one."""
    if flip.change is None or not flip.change.diff or texts.spent:
        return []
    text = texts.say(flip.change.diff, limit=texts.room())
    texts.taken(len(text))
    return [Shown(title="The change, in torch's own sources", text=text, diff=True)]


def _diffs(files: FileChanges | None, texts: TextBudget) -> list[Shown]:
    found = []
    for row in files.diffs if files is not None else ():
        if texts.spent:
            break
        text = texts.say(row.text, limit=texts.room())
        texts.taken(len(text))
        found.append(Shown(title=texts.say(row.path, limit=200), text=text, diff=True))
    return found


def _code(pairs: Sequence[CodePair], texts: TextBudget) -> list[SideBySide]:
    found = []
    for pair in pairs:
        if texts.spent:
            break
        language, title = _CODE.get(pair.kind, ("text", pair.kind))
        good, bad = (
            view(Exhibit(kind="side", title=name, text=text, language=language), texts)
            for text, name in ((pair.good, "passes"), (pair.bad, "fails"))
        )
        said = title + (": the same on both sides" if pair.same else "")
        found.append(SideBySide(title=said, good=good, bad=bad, same=pair.same))
    return found


def _swaps(blame: Blame | None, texts: TextBudget) -> list[tuple[str, str, Mark]]:
    found = []
    for swap in blame.swaps if blame is not None else ():
        pinned = ", ".join(f"{name} {version}" for name, version in swap.pins.items())
        found.append((texts.say(swap.torch, limit=80), texts.say(pinned, limit=300), _mark(swap.verdict)))
    return found


def _numbers(table: Mapping[str, MetricPair], texts: TextBudget) -> list[tuple[str, str, str]]:
    found = []
    for name, row in table.items():
        shown = [f"{number:.4g}" if number is not None else "" for number in (row.good, row.bad)]
        found.append((texts.say(name.replace("_", " "), limit=60), shown[0], shown[1]))
    return found

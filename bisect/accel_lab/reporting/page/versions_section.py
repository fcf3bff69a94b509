"""The section "Since when" of the report: the line of releases, and what is different at each flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.findings import Exhibit
from accel_lab.core.versions import Flip, Versions
from accel_lab.reporting.words import terms
from accel_lab.reporting.words import versions as since
from accel_lab.reporting.words.terms import Mark
from accel_lab.reporting.words.versions import Row

from .exhibits import View, view
from .text_budget import Shown, TextBudget

#: The picture: one box a release, so many in a row.
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
    """One release on the picture of the line."""

    x: int
    y: int
    width: int
    name: str
    symbol: str
    torch: str
    said: str
    turns: bool


@dataclass(frozen=True, kw_only=True)
class Beside:
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
    code: tuple[Beside, ...] = ()
    swaps: tuple[tuple[str, str, Mark], ...] = ()
    numbers: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class VersionsView:
    """What the template shows of the version axis."""

    headline: str
    notes: tuple[str, ...]
    stops: tuple[Stop, ...]
    width: int
    height: int
    rows: tuple[Row, ...]
    flips: tuple[FlipView, ...]
    numbers: bool


def versions_view(versions: Versions | None, texts: TextBudget) -> VersionsView | None:
    """The section, redacted and within the page's budget; None where no releases were asked."""
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
    details = flip.details
    good, bad = (_mapping(details.get(side)) for side in ("good", "bad"))
    return FlipView(
        title=texts.say(_capital(since.flip_line(flip)), limit=400),
        notes=tuple(texts.say(note, limit=1000) for note in (*_change(flip), *flip.notes)),
        good=texts.say(good.get("torch", ""), limit=80),
        bad=texts.say(bad.get("torch", ""), limit=80),
        rungs=tuple(_rungs(good, bad)),
        files=_files(_mapping(details.get("files")), texts),
        diffs=(*_change_diff(flip, texts), *_diffs(_mapping(details.get("files")), texts)),
        code=tuple(_code(details, texts)),
        swaps=tuple(_swaps(_mapping(details.get("companions")), texts)),
        numbers=tuple(_numbers(_mapping(details.get("numbers")), texts)),
    )


def _rungs(good: Mapping[str, Any], bad: Mapping[str, Any]) -> list[tuple[str, Mark, Mark]]:
    """Both ladders, rung by rung, lowest first."""
    one, two = (_verdicts(side) for side in (good, bad))
    return [(rung, one.get(rung, since.UNASKED), two.get(rung, since.UNASKED)) for rung in {**one, **two}]


def _verdicts(side: Mapping[str, Any]) -> dict[str, Mark]:
    rows = [row for row in _list(side.get("ladder")) if isinstance(row, Mapping)]
    return {str(row.get("rung", ""))[:40]: _MARKS.get(str(row.get("verdict")), terms.SKIP) for row in rows}


def _files(files: Mapping[str, Any], texts: TextBudget) -> View | None:
    changed = [row for row in _list(files.get("changed")) if isinstance(row, Mapping)]
    if not changed:
        return None
    rows = [("file", "lines added", "lines removed", "")]
    for row in changed:
        near = "the failure's traceback goes through it" if row.get("near") else ""
        names = "lines that differ name the culprit" if row.get("names") else ""
        how = "" if row.get("how") == "changed" else str(row.get("how", ""))
        rows.append(
            (
                str(row.get("path", "")),
                str(row.get("added", "")),
                str(row.get("removed", "")),
                "; ".join(part for part in (how, names, near) if part),
            )
        )
    more = files.get("more")
    title = str(files.get("said", "Files of the failing stage that differ"))
    title += f" ({more} are not listed)" if more else ""
    return view(Exhibit(kind="files", title=_capital(title), rows=tuple(rows)), texts)


def _change(flip: Flip) -> list[str]:
    if not flip.change:
        return []
    return [_capital(line) for line in (since.change_line(flip.change), *since.commit_lines(flip.change))]


def _change_diff(flip: Flip, texts: TextBudget) -> list[Shown]:
    """The smallest difference of torch's sources that moves the failure."""
    diff = flip.change.get("diff")
    if not diff or texts.spent:
        return []
    text = texts.say(diff, limit=texts.room())
    texts.taken(len(text))
    return [Shown(title="The change, in torch's own sources", text=text, diff=True)]


def _diffs(files: Mapping[str, Any], texts: TextBudget) -> list[Shown]:
    found = []
    for row in _list(files.get("diffs")):
        if not isinstance(row, Mapping) or texts.spent:
            continue
        text = texts.say(row.get("text", ""), limit=texts.room())
        texts.taken(len(text))
        found.append(Shown(title=texts.say(row.get("path", ""), limit=200), text=text, diff=True))
    return found


def _code(details: Mapping[str, Any], texts: TextBudget) -> list[Beside]:
    found = []
    for row in _list(details.get("code")):
        if not isinstance(row, Mapping) or texts.spent:
            continue
        language, title = _CODE.get(str(row.get("kind")), ("text", str(row.get("kind", ""))))
        good, bad = (
            view(Exhibit(kind="side", title=name, text=str(row.get(side, "")), language=language), texts)
            for side, name in (("good", "passes"), ("bad", "fails"))
        )
        same = bool(row.get("same"))
        found.append(
            Beside(title=title + (": the same on both sides" if same else ""), good=good, bad=bad, same=same)
        )
    return found


def _swaps(companions: Mapping[str, Any], texts: TextBudget) -> list[tuple[str, str, Mark]]:
    found = []
    for swap in _list(companions.get("swaps")):
        if isinstance(swap, Mapping):
            pins = _mapping(swap.get("pins"))
            beside = ", ".join(f"{name} {version}" for name, version in pins.items())
            mark = _MARKS.get(str(swap.get("verdict")), terms.SKIP)
            found.append((texts.say(swap.get("torch", ""), limit=80), texts.say(beside, limit=300), mark))
    return found


def _numbers(table: Mapping[str, Any], texts: TextBudget) -> list[tuple[str, str, str]]:
    """What was measured on both sides."""
    found = []
    for name, row in table.items():
        one, two = (_mapping(row).get(side) for side in ("good", "bad"))
        shown = [f"{v:.4g}" if isinstance(v, (int, float)) else "" for v in (one, two)]
        found.append((texts.say(str(name).replace("_", " "), limit=60), shown[0], shown[1]))
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


__all__ = ["VersionsView", "versions_view"]

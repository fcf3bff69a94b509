"""Draws a graph as a layered SVG: nodes in rows by depth, edges downwards.

It uses no layout program: rows by longest path, points for edges that cross rows, order within a row by the
mean place of the neighbours, then positions as near to the neighbours as the row allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from accel_lab.inspection.layers import Node

#: Maximum nodes of one picture; a larger graph is cut.
MOST_NODES = 150
_SWEEPS = 6
_HEIGHT, _ROW, _GAP, _LETTER, _MARGIN = 34, 62, 14, 6.6, 10
_MOST_LETTERS = 26
_CLASSES = {"placeholder": "skip", "get_attr": "skip", "output": "good"}
#: Style of a separate SVG file; in a page the page's style sheet applies.
_STYLE = """
svg { background: #fff; }
text { font: 11px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: #1b2129; }
.kind { fill: #566070; font-size: 9.5px; }
rect { fill: #eff1f4; stroke: #66707e; }
.skip rect { fill: #e8effb; stroke: #2f62b5; }
.good rect { fill: #e4f5ea; stroke: #1a7f43; }
path { fill: none; stroke: #66707e; }
@media (prefers-color-scheme: dark) {
  svg { background: #1a2028; }
  text { fill: #e7ebf0; }
  .kind { fill: #a3adba; }
  rect { fill: #222932; stroke: #97a1ae; }
  .skip rect { fill: #18273f; stroke: #8db6ff; }
  .good rect { fill: #15301f; stroke: #5fd08d; }
  path { stroke: #97a1ae; }
}
"""


@dataclass(kw_only=True, eq=False)
class _Box:
    """A node, or a point at which an edge crosses a row (``node`` is None)."""

    node: Node | None
    row: int
    width: float
    above: list[_Box] = field(default_factory=list)
    below: list[_Box] = field(default_factory=list)
    x: float = 0.0  # of the middle

    @property
    def top(self) -> float:
        return _MARGIN + self.row * _ROW

    @property
    def bottom(self) -> float:
        return self.top + _HEIGHT


def picture(nodes: Sequence[Node], *, title: str, alone: bool = False) -> str:
    """Returns the graph as SVG text; empty without nodes. ``alone``: includes its own style sheet."""
    shown = list(nodes[:MOST_NODES])
    if not shown:
        return ""
    rows = _rows(shown)
    for sweep in range(_SWEEPS):
        _order(rows, downwards=sweep % 2 == 0)
    _place(rows)
    boxes = [box for row in rows for box in row]
    width = max(box.x + box.width / 2 for box in boxes) + _MARGIN
    height = max(box.bottom for box in boxes) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{_safe(title)}">',
        f"<style>{_STYLE}</style>" if alone else "",
    ]
    parts += [_edge(box, user) for box in boxes for user in box.below]
    parts += [_drawn(box) for box in boxes if box.node is not None]
    return "".join([*parts, "</svg>"])


def _rows(nodes: Sequence[Node]) -> list[list[_Box]]:
    """Returns boxes in rows by depth; an input is right above its first user."""
    place: dict[str, int] = {}
    for node in nodes:
        place[node.name] = 1 + max((place[name] for name in node.inputs if name in place), default=-1)
    users: dict[str, list[int]] = {}
    for node in nodes:
        for name in node.inputs:
            users.setdefault(name, []).append(place[node.name])
    for node in nodes:
        if not node.inputs and users.get(node.name):
            place[node.name] = min(users[node.name]) - 1
    boxes = {node.name: _Box(node=node, row=place[node.name], width=_width(node)) for node in nodes}
    rows: list[list[_Box]] = [[] for _ in range(max(place.values()) + 1)]
    for box in boxes.values():
        rows[box.row].append(box)
    for node in nodes:
        for name in dict.fromkeys(node.inputs):
            if name in boxes and boxes[name].row < boxes[node.name].row:
                _join(boxes[name], boxes[node.name], rows)
    return rows


def _join(source: _Box, target: _Box, rows: list[list[_Box]]) -> None:
    """Connects two boxes by a point in each row between them."""
    last = source
    for row in range(source.row + 1, target.row):
        point = next((one for one in last.below if one.node is None), None)
        if point is None:
            point = _Box(node=None, row=row, width=4)
            rows[row].append(point)
            last.below.append(point)
            point.above.append(last)
        last = point
    last.below.append(target)
    target.above.append(last)


def _order(rows: list[list[_Box]], *, downwards: bool) -> None:
    at = {id(box): place for row in rows for place, box in enumerate(row)}
    for row in rows if downwards else rows[::-1]:
        means = {}
        for place, box in enumerate(row):
            near = box.above if downwards else box.below
            means[id(box)] = sum(at[id(one)] for one in near) / len(near) if near else float(place)
        row.sort(key=lambda box: means[id(box)])
        at.update((id(box), place) for place, box in enumerate(row))


def _place(rows: list[list[_Box]]) -> None:
    """Packs rows, then moves each box towards its neighbours as far as there is room."""
    for row in rows:
        _pack(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = []
            for box in row:
                near = (box.above if sweep % 2 == 0 else box.below) or [box]
                wanted.append(sum(one.x for one in near) / len(near))
            _pack(row, wanted)
    least = min(box.x - box.width / 2 for row in rows for box in row)
    for row in rows:
        for box in row:
            box.x += _MARGIN - least


def _pack(row: Sequence[_Box], wanted: Sequence[float]) -> None:
    """Puts boxes side by side in their order, their centres near the wanted positions."""
    right = float("-inf")
    for box, want in zip(row, wanted, strict=True):
        box.x = max(want, right + _GAP + box.width / 2)
        right = box.x + box.width / 2
    if row:  # so far boxes were only pushed right: move all back by the mean push
        push = sum(box.x - want for box, want in zip(row, wanted, strict=True)) / len(row)
        for box in row:
            box.x -= push


def _edge(box: _Box, user: _Box) -> str:
    start = box.bottom if box.node is not None else box.top + _HEIGHT / 2
    end = user.top if user.node is not None else user.top + _HEIGHT / 2
    middle = f"{(start + end) / 2:.1f}"
    one, two = f"{box.x:.1f}", f"{user.x:.1f}"
    return f'<path d="M{one} {start:.1f}C{one} {middle} {two} {middle} {two} {end:.1f}"/>'


def _drawn(box: _Box) -> str:
    node = box.node
    if node is None:
        return ""
    left = box.x - box.width / 2
    tip = f"{node.name} = {node.target}" + (f"\n{node.source} {node.code}" if node.source else "")
    kind = _kind(node)
    return (
        f'<g class="{_CLASSES.get(node.op, "na")}"><title>{_safe(tip)}</title>'
        f'<rect x="{left:.1f}" y="{box.top}" width="{box.width:.0f}" height="{_HEIGHT}" rx="5"/>'
        + _line(box, 14 if kind else 21, _label(node))
        + (_line(box, 27, kind, "kind") if kind else "")
        + "</g>"
    )


def _line(box: _Box, down: int, text: str, name: str = "name") -> str:
    return (
        f'<text class="{name}" x="{box.x:.1f}" y="{box.top + down}" text-anchor="middle">{_safe(text)}</text>'
    )


def _kind(node: Node) -> str:
    """Returns dtype and size of a node's result, shortened to fit into a box."""
    return _cut(node.tensors[0].text) if node.tensors and node.op != "output" else ""


def _label(node: Node) -> str:
    """Returns the operator's bare name, or an input's name."""
    if not node.is_call:
        return _cut(node.name)
    parts = node.target.split(".")
    return _cut(parts[1] if parts[0] in ("aten", "prims") and len(parts) > 2 else parts[-1])


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def _width(node: Node) -> float:
    return max(len(_label(node)), len(_kind(node)) * 0.9, 5) * _LETTER + 12


def _safe(text: str) -> str:
    """Escapes untrusted text for XML, and replaces characters that XML does not allow."""
    return escape("".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text))

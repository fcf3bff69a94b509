"""Draws memory over the nodes of a graph as a small SVG: steps with the peak marked."""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.inspection.layers import amount

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 640, 150, 6, 20, 20
#: Maximum steps drawn; in a longer graph each step is the maximum of several nodes.
_MOST_STEPS = 300


def picture(held: Sequence[int]) -> str:
    """Returns the chart as SVG; ``held`` is the bytes held while each node runs, in node order."""
    peak = max(held, default=0)
    if not peak:
        return ""
    group = -(-len(held) // _MOST_STEPS)
    steps = [max(held[start : start + group]) for start in range(0, len(held), group)]
    wide = (_WIDTH - 2 * _LEFT) / len(steps)
    high = _HEIGHT - _BOTTOM - _TOP
    floor = _HEIGHT - _BOTTOM
    line = f"M{_LEFT} {floor}"
    for place, size in enumerate(steps):
        top = floor - high * size / peak
        line += f"V{top:.1f}H{_LEFT + wide * (place + 1):.1f}"
    at = _LEFT + wide * (steps.index(peak) + 0.5)
    anchor = "start" if at < _WIDTH / 3 else "end" if at > 2 * _WIDTH / 3 else "middle"
    return (
        f'<svg class="memory" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="estimated memory over the nodes, at most {amount(peak)}">'
        f'<path class="area" d="{line}V{floor}Z"/>'
        f'<line x1="{_LEFT}" x2="{_WIDTH - _LEFT}" y1="{floor}" y2="{floor}"/>'
        f'<circle cx="{at:.1f}" cy="{_TOP}" r="3.5"/>'
        f'<text x="{at:.1f}" y="{_TOP - 7}" text-anchor="{anchor}">{amount(peak)}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 5}">first node</text>'
        f'<text x="{_WIDTH - _LEFT}" y="{_HEIGHT - 5}" text-anchor="end">node {len(held)}</text></svg>'
    )

"""What a pass of Inductor's that is left out returns in its place."""

from __future__ import annotations

from typing import Any

import pytest

from accel_lab.child.hooks.passes import _returns


def counting(graph: Any):  # type: ignore[no-untyped-def]
    if not graph.nodes:
        return 0
    count = 0
    count += 1
    return count


def handing_on(gm: Any):  # type: ignore[no-untyped-def]
    if not gm.nodes:
        return gm
    return gm.recompile()


def looking(graph: Any):  # type: ignore[no-untyped-def]
    if not graph.nodes:
        return
    graph.lint()


def counting_by_annotation(graph: Any) -> int:
    return len(graph.nodes)


def quiet_by_annotation(graph: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (counting, "number"),
        (handing_on, "graph"),
        (looking, ""),
        (counting_by_annotation, "number"),
        (quiet_by_annotation, ""),
        (len, ""),
    ],
)
def test_it_returns_what_it_would_with_nothing_to_do(function: Any, kind: str) -> None:
    assert _returns(function) == kind

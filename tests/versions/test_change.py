"""What the runs of mixed releases say, without a release."""

from __future__ import annotations

from typing import Any

import pytest

from accel_lab.versions.change import compiled
from fakes_lab import passing


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"frames": {"total": 2, "ok": 1}, "stats": {"unique_graphs": 3, "calls_captured": 9}}, (2, 1, 3)),
        ({"frames": {"total": 1}}, (1, 0, 0)),  # a mix with which Dynamo gives the frame up
        ({}, (0, 0, 0)),
    ],
)
def test_how_much_is_compiled_is_read_from_dynamos_counters(
    counters: dict[str, Any], expected: tuple[int, ...]
) -> None:
    assert compiled(passing(facts={"counters": counters})) == expected

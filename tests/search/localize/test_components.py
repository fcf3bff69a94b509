"""The smallest set of applications whose absence cures: found, 1-minimal, with few questions."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from accel_lab.search.localize.ablation import Item, minimal_fix_set

ITEMS = [("group", f"name{n}#0") for n in range(40)]


def search(guilty: set[Item], items: Sequence[Item] = ITEMS) -> tuple[list[Item] | None, int]:
    asked = 0

    def cured(off: Sequence[Item]) -> bool:
        nonlocal asked
        asked += 1
        return guilty <= set(off)

    return minimal_fix_set(items, cured, most=1000), asked


@given(st.sampled_from(ITEMS))
def test_one_culprit_is_found_by_halving(culprit: Item) -> None:
    found, asked = search({culprit})
    assert found == [culprit]
    assert asked <= 2 * 6 + 1


@given(st.sets(st.sampled_from(ITEMS), min_size=1, max_size=4))
def test_several_that_are_needed_together_are_all_named(guilty: set[Item]) -> None:
    found, _ = search(guilty)
    assert found is not None and set(found) == guilty


def test_nothing_cures() -> None:
    assert search({("group", "elsewhere#0")}) == (None, 1)
    assert search(set(), []) == (None, 0)


def test_a_tight_budget_still_returns_a_cure() -> None:
    found = minimal_fix_set(ITEMS, lambda off: ITEMS[7] in off, most=3)
    assert found is not None and ITEMS[7] in found

"""Stages and releases together: the sentence at the flips, and the grid of releases and rungs."""

from __future__ import annotations

import pytest

from accel_lab.core.releases.versions import Flip
from accel_lab.core.stages import LADDER, Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.timeline.matrix import Cell, Matrix, columns_in_order
from accel_lab.search.timeline.two_axes import Laddered, two_axes, where_changed

G, B, S, D = Verdict.GOOD, Verdict.BAD, Verdict.SKIP, Verdict.DIFFERENT


def ladder(torch: str, letters: str, stage: str = "", component: str = "") -> Laddered:
    """``letters``: one for each rung from ``uncompiled`` to ``kernel``."""
    verdicts = [{"G": G, "B": B, "S": S, "D": D}[letter] for letter in letters]
    return Laddered(
        torch=torch, stage=stage, component=component, rungs=dict(zip(LADDER, verdicts, strict=True))
    )


INTRODUCED = Flip(after="2.4.1", at="2.5.0", kind="introduced")
FIXED = Flip(after="2.8.0", at="2.9.0", kind="fixed")
AGAIN = Flip(after="2.10.0", at="2.11.0", kind="broken_again")


def test_since_and_fixed_by_a_change_below() -> None:
    found = two_axes(
        [INTRODUCED, FIXED],
        {
            "2.4.1": ladder("2.4.1", "GGGGGGG"),
            "2.5.0": ladder("2.5.0", "GGGGGBB", "fx_passes", "a_pass"),
            "2.8.0": ladder("2.8.0", "GGGGGBB", "fx_passes", "a_pass"),
            "2.9.0": ladder("2.9.0", "GGGGGBG"),
        },
    )
    assert found.sentence == (
        "fx_passes since 2.5.0; fixed in 2.9.0 by a change below fx, which hides the fault rather than "
        "fixing it"
    )
    assert found.stages == ("fx_passes", "fx_passes")
    assert found.same is True
    assert found.notes == (
        "the failing stage is the same at every flip: fx_passes",
        "and so is the component: a_pass",
    )


def test_mended_where_it_was_or_above() -> None:
    found = two_axes(
        [FIXED],
        {"2.8.0": ladder("2.8.0", "GGGGGBB", "fx_passes"), "2.9.0": ladder("2.9.0", "GGGGGGG")},
    )
    assert found.sentence == ("fx_passes up to 2.8.0; fixed in 2.9.0 by a change in fx_passes or above it")
    assert found.same is None


def test_an_old_fault_that_a_change_below_let_show() -> None:
    found = two_axes(
        [INTRODUCED],
        {"2.4.1": ladder("2.4.1", "GGGGGBG"), "2.5.0": ladder("2.5.0", "GGGGGBB", "fx_passes")},
    )
    assert found.sentence == "fx_passes since 2.5.0 (older, shown by a change below fx)"


def test_two_faults_are_told_apart() -> None:
    found = two_axes(
        [INTRODUCED, FIXED, AGAIN],
        {
            "2.5.0": ladder("2.5.0", "GGGGGBB", "fx_passes", "a_pass"),
            "2.8.0": ladder("2.8.0", "GGGGGBB", "fx_passes", "a_pass"),
            "2.11.0": ladder("2.11.0", "GGBBBBB", "aot_autograd", "an_op"),
        },
    )
    assert found.sentence == "fx_passes since 2.5.0; fixed in 2.9.0; broken again in 2.11.0 in aot_autograd"
    assert found.same is False
    assert found.notes[0] == (
        "the failing stage is not the same at every flip: fx_passes in 2.5.0, fx_passes in 2.8.0, "
        "aot_autograd in 2.11.0; these may be two faults"
    )
    assert found.notes[1].startswith("the component differs: ")


def test_without_ladders_only_the_releases_are_told() -> None:
    found = two_axes([INTRODUCED, FIXED], {})
    assert (found.sentence, found.same, found.notes) == ("since 2.5.0; fixed in 2.9.0", None, ())
    assert two_axes([], {}).sentence == ""


def test_a_range_is_told_as_one() -> None:
    flip = Flip(after="2.4.1", at="2.6.0", kind="introduced", between=("2.5.0", "2.5.1"))
    found = two_axes([flip], {"2.6.0": ladder("2.6.0", "GGGGGGB", "codegen")})
    assert found.sentence == "codegen since 2.6.0 (or one of 2.5.0, 2.5.1)"


@pytest.mark.parametrize(
    ("bad", "good", "where"),
    [
        ("GGGGGBB", "GGGGGGG", "in fx_passes or above it"),
        ("GGGGGBB", "GGGGGBG", "below fx"),
        ("GGGGGBB", "GGGGGSG", ""),
        ("GGGGGBB", "GGGGGDG", ""),
        ("BBBBBBB", "GGGGGGG", "in eager"),
        ("GGGSSBB", "GGGBBGG", "in fx_passes or above it"),
        ("GGGGGGG", "GGGGGGG", ""),
    ],
)
def test_where_the_change_lies(bad: str, good: str, where: str) -> None:
    stages = {"GGGGGBB": "fx_passes", "GGGSSBB": "fx_passes"}
    assert where_changed(ladder("2", bad, stages.get(bad, "")), ladder("3", good)) == where


@pytest.mark.parametrize(
    ("letters", "start"),
    [
        ("GGGGGBB", Rung.FX),
        ("GBGGGGB", Rung.KERNEL),
        ("GGGGSSB", Rung.KERNEL),
        ("GGBSSSB", Rung.AOT),
        ("GGBDBBB", Rung.DECOMP),
        ("GGGGGBG", None),
        ("SSSSSSS", None),
    ],
)
def test_where_a_ladder_starts_to_fail(letters: str, start: Rung | None) -> None:
    assert ladder("2", letters).starts is start


# -- the grid --------------------------------------------------------------------------------------


def matrix() -> Matrix:
    columns = columns_in_order(["mock", "kernel", "dynamo", "fx", "uncompiled", "kernel"])
    rows = {
        "2.4.0": "GGGGG",
        "2.5.0": "GGBBS",
        "2.6.0": "GGBBG",
        "2.7.0": "SSSSS",
        "2.8.0": "GGGBG",
        "2.9.0": "GGGGG",
    }
    return Matrix(
        releases=tuple(rows),
        columns=columns,
        cells={
            (release, column): Cell(
                verdict={"G": G, "B": B, "S": S}[letter], folder=f"runs/{release}/{column}"
            )
            for release, letters in rows.items()
            for column, letter in zip(columns, letters, strict=True)
            if letter != "S" or release == "2.7.0"
        },
    )


def test_columns_stand_in_the_order_of_the_stack() -> None:
    assert matrix().columns == ("uncompiled", "dynamo", "fx", "kernel", "mock")


def test_bands_of_releases_that_fail_alike() -> None:
    assert matrix().bands() == [
        ("2.4.0", "2.4.0", None),
        ("2.5.0", "2.6.0", "fx"),
        ("2.8.0", "2.8.0", "kernel"),
        ("2.9.0", "2.9.0", None),
    ]
    assert matrix().sentences()[:2] == ["2.4.0: passes", "2.5.0 to 2.6.0: fails from fx on"]


def test_cells_link_to_their_outcome_and_may_be_missing() -> None:
    grid = matrix()
    assert grid.cell("2.5.0", "mock") is None
    assert grid.row("2.5.0")[-1] is None
    told = grid.to_json()
    assert told["rows"][1]["cells"]["mock"] is None
    assert told["rows"][1]["cells"]["fx"]["folder"] == "runs/2.5.0/fx"
    assert told["rows"][1]["starts"] == "fx"
    assert told["columns"] == list(grid.columns)


def test_a_release_whose_top_passes_passes_whatever_fails_below() -> None:
    grid = Matrix(
        releases=("2.9.0",),
        columns=("dynamo", "fx", "kernel"),
        cells={("2.9.0", "fx"): Cell(verdict=B), ("2.9.0", "kernel"): Cell(verdict=G)},
    )
    assert grid.starts("2.9.0") is None


def test_another_way_down_does_not_decide_where_the_ladder_starts() -> None:
    grid = Matrix(
        releases=("2.9.0",),
        columns=("kernel", "mock"),
        cells={("2.9.0", "kernel"): Cell(verdict=G), ("2.9.0", "mock"): Cell(verdict=B)},
    )
    assert grid.starts("2.9.0") is None

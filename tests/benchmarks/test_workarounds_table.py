"""The table of workarounds: what a row says, what the summary counts, and that a row is kept at once."""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import workarounds  # noqa: E402
from golden import load_cases  # noqa: E402

(DROPOUT,) = load_cases(names=["195422-dropout-returns-its-input"])
WAY = {"kind": "setting", "cost": {"of": "region", "seconds": 3.0, "eager": 2.0, "failing": 1.0, "runs": 3}}


def findings(stage="decomposition", ways=(WAY,), known=(), total=60.0, spent=12.0):
    return {
        "verdict": "fails",
        "culprit": {"stage": stage, "component": {"name": "aten.dropout"}},
        "workarounds": list(ways),
        "known": [{"entry": entry} for entry in known],
        "seconds": {"total": total, "probes": 40.0, "workarounds": spent},
    }


def row(found, which="golden"):
    asked = workarounds.asked_of(DROPOUT, "2.13.0")
    assert asked is not None
    return workarounds.row_of(which, asked, "2.13.0", found)


def test_the_share_is_of_the_bisection_without_the_search_for_workarounds() -> None:
    made = row(findings())
    assert (made.share, made.cost, made.workarounds) == ("0.25", "1.50", "setting")
    assert (made.whole, row(findings(total=12.0)).share) == ("", "")
    assert workarounds.row_of(
        "golden", workarounds.Asked(name="x", command=[], env={}), "2.13.0", {}
    ).stage == ("no answer")


def test_a_case_that_passes_there_has_nothing_to_get_around() -> None:
    assert workarounds.asked_of(DROPOUT, "2.14.1") is None


def test_the_summary_counts_what_was_found_and_what_was_matched() -> None:
    wanted = row(findings(known=[DROPOUT.slug]))
    rows = [
        wanted,
        replace(wanted, case="none", workarounds="", known="other", cost="", share="0.75"),
        replace(wanted, case="eager", stage="eager", workarounds=""),
        replace(wanted, case="again", set="reworded"),
        replace(wanted, case="far", set="unrelated", wanted="", known=""),
        replace(wanted, case="stray", set="unrelated", wanted="", known="other"),
    ]
    rows.append(replace(wanted, case="all of it", share="", whole="0.10"))
    text = workarounds.summary(rows)
    assert "4 of 5 have a verified workaround" in text
    assert "looking for one takes 0.10 times the rest of the bisection (median of 1)" in text
    assert "and 0.25 times the rest where nothing is reduced or bundled (median of 4)" in text
    assert "3 of 4 golden scripts of the catalogue are matched" in text
    assert "1 of 1 reworded scripts" in text and "1 of 2 others are matched" in text


def test_a_row_is_kept_at_once_and_replaces_that_of_its_script(tmp_path) -> None:
    table = tmp_path / "t.tsv"
    workarounds.save(table, row(findings()))
    workarounds.save(table, replace(row(findings()), build="2.6.0"))
    asked = workarounds.Asked(name=DROPOUT.slug, command=[], env={})
    workarounds.save(table, workarounds.row_of("golden", asked, "2.13.0", findings(ways=()), whole=True))
    rows = workarounds.tables.read(table, workarounds.Row)
    assert [(one.build, one.workarounds) for one in rows] == [("2.6.0", "setting"), ("2.13.0", "")]
    assert [(one.share, one.whole) for one in rows] == [("0.25", ""), ("0.25", "0.25")]

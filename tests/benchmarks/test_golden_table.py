"""The committed table of verdicts: partial runs change their own lines, and a changed verdict is told."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import localize  # noqa: E402
from golden import Grade, Score, load_cases  # noqa: E402
from golden_table import Line, coarse, compared, merged, read, write  # noqa: E402


def line(case="a", build="2.13.0", **changes):
    values = {
        "want": "lowering",
        "stage": "lowering",
        "component": "aten.sinh",
        "confidence": "proven",
        "probes": 9,
        "ratio": "2.5",
    }
    return Line(case=case, build=build, **{**values, **changes})


def table(*lines):
    return {one.key: one for one in lines}


def test_what_is_written_is_read_again_sorted_by_case_and_release(tmp_path):
    path = tmp_path / "table.tsv"
    lines = table(line("b"), line("a", "2.13.0"), line("a", "2.6.0"), line("c", component="p, q"))
    write(path, lines)
    assert read(path) == lines
    rows = [row.split("\t")[:2] for row in path.read_text(encoding="utf-8").splitlines()]
    assert rows == [["case", "build"], ["a", "2.6.0"], ["a", "2.13.0"], ["b", "2.13.0"], ["c", "2.13.0"]]


def test_a_name_cannot_break_the_table(tmp_path):
    path = tmp_path / "table.tsv"
    write(path, table(line(component="two\tcolumns\nand lines")))
    assert read(path)["a", "2.13.0"].component == "two columns and lines"


def test_another_file_is_refused_and_none_is_empty(tmp_path):
    assert read(tmp_path / "none.tsv") == {}
    (tmp_path / "other.tsv").write_text("a\tb\n1\t2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="columns"):
        read(tmp_path / "other.tsv")


def test_a_partial_run_changes_its_own_lines():
    old = table(line("a"), line("a", "2.6.0"), line("b"), line("gone"))
    new = merged(old, [line("a", stage="codegen"), line("new")], {"a", "b", "new"})
    assert set(new) == {("a", "2.13.0"), ("a", "2.6.0"), ("b", "2.13.0"), ("new", "2.13.0")}
    assert new["a", "2.13.0"].stage == "codegen"
    assert new["a", "2.6.0"] == old["a", "2.6.0"]


@pytest.mark.parametrize("changed", [{"stage": "codegen"}, {"component": "-"}, {"confidence": "likely"}])
def test_a_changed_verdict_is_told(changed):
    changes = compared(table(line(), line("b")), [line(**changed)])
    assert len(changes.verdicts) == 1
    assert changes.verdicts[0].startswith("a on 2.13.0: lowering aten.sinh (proven) -> ")
    assert (changes.costs, changes.new) == ((), ())


def test_costs_and_new_cases_are_no_change_of_a_verdict():
    changes = compared(table(line()), [line(probes=12, ratio="3.0"), line("b")])
    assert changes.verdicts == ()
    assert changes.costs == ("a on 2.13.0: 9 probes, 2.5 plain runs -> 12 probes, 3.0 plain runs",)
    assert changes.new == ("b on 2.13.0: new: lowering aten.sinh (proven)",)
    assert compared(table(line()), [line()]).text == "nothing has changed"


@pytest.mark.parametrize(("ratio", "text"), [(None, ""), (2.74, "2.5"), (2.76, "3.0"), (12.0, "12.0")])
def test_ratios_are_coarse(ratio, text):
    assert coarse(ratio) == text


def rows(**changes):
    score = {"grade": Grade.RIGHT, "answer": "lowering", "confidence": "proven", "component": "aten.asinh"}
    made = {"slug": "inject-lowering", "build": "2.13.0", "scored": True, "want": ("lowering",)}
    costs = {"probes": 9, "seconds": 25.0, "plain_s": 10.0}
    return [localize.Row(score=Score(**{**score, **changes}), **made, **costs)]


def test_saving_and_comparing_from_the_command_line(tmp_path, monkeypatch, capsys):
    path = tmp_path / "table.tsv"
    monkeypatch.setattr(localize, "collect", lambda options, tell: rows())
    assert localize.main(["--save", "--table", str(path)]) == 0
    assert read(path)["inject-lowering", "2.13.0"].ratio == "2.5"
    assert localize.main(["--compare", "--table", str(path)]) == 0
    assert "nothing has changed" in capsys.readouterr().out
    monkeypatch.setattr(localize, "collect", lambda options, tell: rows(confidence="likely"))
    assert localize.main(["--compare", "--table", str(path)]) == 1
    assert "(proven) -> lowering aten.asinh (likely)" in capsys.readouterr().out
    assert read(path)["inject-lowering", "2.13.0"].confidence == "proven"
    assert localize.main(["--compare", "--save", "--table", str(path)]) == 1
    assert read(path)["inject-lowering", "2.13.0"].confidence == "likely"


def test_the_table_lies_beside_the_benchmarks_and_saving_times_plain_runs():
    options = localize.parse(["--save", "hand-passes"])
    assert options.table == ROOT / "benchmarks" / "golden_table.tsv"
    assert options.plain and options.save and not options.compare
    assert options.names == ("hand-passes",)


def test_the_committed_table_names_cases_that_exist_and_builds_that_were_run():
    cases = {case.slug: case for case in load_cases()}
    lines = read(localize.TABLE)
    assert lines
    for one in lines.values():
        assert cases[one.case].fails(one.build) is not None, one

"""The table of changes at flips: how near an answer is to the public fix; a stopped run loses nothing."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import changes  # noqa: E402
from golden import load_cases  # noqa: E402

FIX = "torch/_decomp/decompositions.py::dropout"
(DROPOUT,) = load_cases(names=["195422-dropout-returns-its-input"])
COMPILED = "no change in torch's Python sources fixes the failure: the change is in compiled code"


def findings(**change):
    return {"probes": 31, "versions": {"flips": [{"change": change}]}}


def found(symbol="dropout", both_ways=True):
    piece = {"file": "torch/_decomp/decompositions.py", "symbol": symbol}
    return findings(found=True, pieces=[piece], both_ways=both_ways, runs=9)


@pytest.mark.parametrize(
    ("said", "right", "confidence"),
    [
        (found(), "function", "proven"),
        (found(both_ways=None), "function", "likely"),
        (found(symbol="aminmax"), "file", "proven"),
        (found(both_ways=False), "function", "refuted"),
        (findings(found=False, why=COMPILED, runs=7), "no", ""),
        ({"versions": {"flips": []}}, "no", ""),
        (None, "no", ""),
    ],
)
def test_an_answer_is_held_against_the_fix(said, right, confidence) -> None:
    row = changes.row_of(DROPOUT, "2.13.0", "2.14.1", said, 2.04)
    assert (row.right, row.confidence, row.minutes, row.fix) == (right, confidence, "2.0", FIX)


def test_compiled_code_is_right_only_where_the_fix_is_compiled() -> None:
    kernel = "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp::logit_kernel"
    assert changes.rightness([kernel], [], COMPILED) == "compiled"
    assert changes.rightness([kernel], [], "out of time") == "no"
    assert changes.rightness([kernel], [FIX], "") == "no"
    assert changes.rightness([FIX], [], COMPILED) == "no"
    assert changes.rightness([], [FIX], "") == ""


def test_a_table_is_read_as_it_was_written(tmp_path) -> None:
    row = changes.row_of(DROPOUT, "2.13.0", "2.14.1", found(), 2.0)
    other = replace(row, case="another", named="why:\nno\tflip", right="no")
    changes.write(tmp_path / "t.tsv", [row, other])
    table = changes.read(tmp_path / "t.tsv")
    assert list(table) == [row.key, other.key]
    assert table[row.key] == row and table[other.key].named == "why: no flip"
    (tmp_path / "t.tsv").write_text("case\tother\n")
    with pytest.raises(ValueError, match="not a table"):
        changes.read(tmp_path / "t.tsv")


def test_the_summary_names_what_is_wrong_as_proven() -> None:
    row = changes.row_of(DROPOUT, "2.13.0", "2.14.1", found(), 2.0)
    wrong = replace(row, case="wrong", right="no", runs="30")
    text = changes.summary([row, wrong])
    assert "2 flips, 2 with a known fix: 1 function, 0 file, 0 compiled, 1 no" in text
    assert "wrong as proven: wrong" in text and "1 of 2 within 12" in text

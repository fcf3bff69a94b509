"""The catalogue of known failures that the package ships is made of the golden cases."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from catalogue import PATH, fits, text  # noqa: E402
from golden import load_cases  # noqa: E402

REWORDED = ROOT / "benchmarks" / "reworded"


def test_the_shipped_catalogue_is_what_the_golden_cases_say() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run: python benchmarks/catalogue.py"


@pytest.mark.parametrize(
    ("name", "ships"),
    [
        ("178480-celu-alpha-zero", True),
        ("hand-eager-error", False),  # no public issue
        ("hand-folder-tree", False),  # several files
        ("177839-logit-sliced", False),  # torch.compile is not at fault
    ],
)
def test_what_one_script_shows_by_itself_is_shipped(name: str, ships: bool) -> None:
    (case,) = load_cases(names=[name])
    assert fits(case) is ships
    assert (name in {row["entry"] for row in json.loads(text())}) is ships


def test_the_golden_cases_in_other_words_are_entries_and_share_no_line_of_code_with_them() -> None:
    entries = {row["entry"]: row["script"] for row in json.loads(text())}
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in REWORDED.glob("*.py")}
    assert len(scripts) == 10 and set(scripts) <= set(entries)
    for name, script in scripts.items():
        mine, theirs = ({line.strip() for line in one.splitlines()} for one in (script, entries[name]))
        shared = {line for line in mine & theirs if "torch.compile(" in line}
        assert not shared, f"{name}: {shared}"

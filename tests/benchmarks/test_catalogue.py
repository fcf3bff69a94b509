"""The catalogue of known failures that the package ships is made of the golden cases."""

from __future__ import annotations

import json

import pytest

from catalogue import PATH, fits, text
from golden import load_cases


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

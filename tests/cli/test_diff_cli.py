"""``accel-lab diff``: the answer in each form, on a script with one wrong lowering and on one that agrees."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from accel_lab.cli.main import cli, main
from accel_lab.numerics.pairs import pairs
from accel_lab.numerics.recording import Entry, Recording
from accel_lab.numerics.values import Record
from accel_lab.reporting.page import diff as diff_page
from accel_lab.reporting.page import diff_plots
from accel_lab.reporting.words import diff as diff_words

WRONG = """
import torch
from torch._inductor import lowering

log1p, mul = (lowering.lowerings[op] for op in (torch.ops.aten.log1p.default, torch.ops.aten.mul.Tensor))
lowering.lowerings[torch.ops.aten.log1p.default] = lambda t: mul(log1p(t), 1.001)
torch.manual_seed(2)
net = torch.nn.Linear(6, 8)


@torch.compile
def score(x):
    h = net(x).relu()
    return {"map": torch.log1p(h), "mean": h.mean(-1)}


score(torch.randn(4, 5, 6))["map"].sum().backward()
"""


@pytest.mark.torch
def test_a_wrong_lowering_is_shown_value_by_value(
    torch_python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(WRONG)
    with pytest.raises(SystemExit) as ended:
        main(["diff", "--json", "--python", torch_python, "--out", str(tmp_path / "out"), str(script)])
    assert ended.value.code == 1
    answer = json.loads(capsys.readouterr().out)
    different = [row for row in answer["rows"] if not row["same"]]
    assert [row["path"] for row in different] == ["out['map']"]
    metrics = different[0]["metrics"]
    assert metrics["relative"]["max"] == pytest.approx(1e-3, rel=0.2)
    assert metrics["cosine"] > 0.999999
    assert {row["phase"] for row in answer["rows"]} >= {"output", "grad", "parameter"}
    folder = Path(answer["folder"])
    assert {"diff.html", "diff.json", "pictures"} <= {path.name for path in folder.iterdir()}
    assert list((folder / "pictures").glob("value-*.png")) and list((folder / "pictures").glob("*.svg"))


def test_the_two_sides_must_be_two() -> None:
    ended = CliRunner().invoke(cli, ["diff", "--reference", "aot", "--test", "aot", __file__])
    assert "nothing to compare" in str(ended.exception)


# -- the page, the pictures and the words, on made-up values ----------------------------------------


def diff_of(got: Any, want: Any, name: str = "out") -> tuple[dict[str, Any], list[Any]]:
    sides = []
    for values in (got, want):
        data = np.asarray(values, dtype=np.float32)
        key = ("f", 0, 0, "output", name)
        record = Record(kind="tensor", dtype="float32", shape=data.shape, data=data)
        sides.append(Recording(entries={key: Entry(key=key, record=record)}))
    found = pairs(*sides)
    pictures = [
        diff_plots.over_depth(found),
        diff_plots.of_tensor("value-1", found[0], *map(np.float32, (got, want))),
    ]
    diff = {
        "schema": "accel-lab/diff/1",
        "program": "script.py",
        "torch": "2.13.0",
        "reference": "eager",
        "test": "inductor",
        "runs": 1,
        "rule": "a rule",
        "failures": ["inductor failed: boom"],
        "summary": {"values": 1, "differ": int(not found[0].comparison.same), "first": None, "worst": None},
        "rows": [found[0].to_json()],
        "folder": "/x",
    }
    return diff, [picture for picture in pictures if picture is not None]


@pytest.mark.parametrize("shape", [(7,), (2000,), (5, 6), (400, 300), (3, 4, 5, 6)], ids=str)
def test_a_picture_of_every_shape_shows_the_worst_slice(shape: tuple[int, ...]) -> None:
    want = np.random.default_rng(0).normal(size=shape)
    got = want.copy()
    worst = tuple(n - 1 for n in shape)
    got[worst] += 1.0
    _, pictures = diff_of(got, want)
    assert [picture.name for picture in pictures] == ["depth", "value-1"]
    for picture in pictures:
        assert picture.png.startswith(b"\x89PNG") and "</svg>" in picture.svg
    if len(shape) > 2:
        assert f"[{', '.join(map(str, worst[:-2]))}, :, :]" in pictures[1].words
    assert diff_of(got, want)[1][1].svg == pictures[1].svg, "the same values make the same picture"


def test_values_that_agree_or_are_alone_make_no_picture() -> None:
    assert diff_of([1.0, 2.0], [1.0, 2.0])[1] == []


def test_infinite_errors_can_be_drawn() -> None:
    _, pictures = diff_of([np.inf, 1.0, 2.0, np.nan], [1.0, 1.0, 2.5, 3.0])
    assert len(pictures) == 2


def test_the_page_loads_nothing_and_escapes_what_a_script_named() -> None:
    diff, pictures = diff_of([1.0, 2.0], [1.0, 3.0], name="out['<script>alert(1)</script>']")
    page = diff_page.render(diff, pictures)
    assert "<script" not in page and "alert(1)" in page
    assert not re.search(r"(?:src|href)=[\"'](?!data:)", page)
    assert "1 of 1 values differ" in page and "inductor failed: boom" in page


def test_the_terminal_tells_special_values_and_the_count_of_the_rest() -> None:
    diff, _ = diff_of([1.0, np.nan], [1.0, 3.0])
    diff["rows"] = diff["rows"] * (diff_words.MOST_ROWS + 3)
    told = diff_words.text(diff, 120)
    assert "and 3 more: see diff.json" in told
    assert "NaN: 1 in the tested run only, 0 in the other only" in told
    assert max(map(len, told.splitlines())) <= 140

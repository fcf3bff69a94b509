"""``accel-lab diff``: the answer in each form, on a script with one wrong lowering and on one that agrees."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import accel_lab.reporting
from accel_lab.cli.commands.diff_command import _Comparison
from accel_lab.cli.main import cli, main
from accel_lab.core.outcome import Outcome, Status
from accel_lab.numerics.depth import Depth, Operator
from accel_lab.numerics.pairs import pairs
from accel_lab.numerics.recording import Entry, Recording
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.numerics.values import Record
from accel_lab.reporting.page import depth_plot, diff_plots
from accel_lab.reporting.page import diff as diff_page
from accel_lab.reporting.schema import json_text
from accel_lab.reporting.words import diff as diff_words
from accel_lab.search.localize.divergence import AS_IS

SCHEMA = Path(str(accel_lab.reporting.__file__)).with_name("diff.schema.json")

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
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8"))).validate(answer)
    first = next(
        one for one in answer["layers"]["operators"] if one["node"] == answer["layers"]["first_operator"]
    )
    assert first["op"] == "aten.log1p.default" and "torch.log1p(h)" in first["source"]
    assert (folder / "pictures" / "layers.png").is_file()


def test_the_two_sides_must_be_two() -> None:
    ended = CliRunner().invoke(cli, ["diff", "--reference", "aot", "--test", "aot", __file__])
    assert "nothing to compare" in str(ended.exception)


# -- the page, the pictures and the words, on made-up values ----------------------------------------


def sides(got: Any, want: Any, name: str = "out") -> tuple[Recording, Recording]:
    made = []
    for values in (got, want):
        data = np.asarray(values, dtype=np.float32)
        key = ("f", 0, 0, "output", name)
        record = Record(kind="tensor", dtype="float32", shape=data.shape, data=data)
        made.append(Recording(entries={key: Entry(key=key, record=record)}))
    return made[0], made[1]


def diff_of(got: Any, want: Any, name: str = "out") -> tuple[dict[str, Any], list[Any]]:
    found = pairs(*sides(got, want, name))
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
        "layers": None,
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


def test_several_runs_show_mean_and_variance_of_their_greatest_error() -> None:
    diff, _ = diff_of([1.0, 2.5], [1.0, 2.0])
    diff["rows"][0]["runs"] = {"mean": 0.25, "variance": 0.0625}
    said = "greatest error of all runs: mean 0.25, variance 0.0625"
    assert said in diff_words.text(diff, 120) and said in diff_page.render(diff, [])


# -- aliasing, and layer by layer ----------------------------------------------------------------------


def depth(*differ: str) -> Depth:
    rows = [
        ("mm", "aten.mm.default", "first (Linear)", 1e-7),
        ("relu", "aten.relu.default", "", 1e-7),
        ("mm_1", "aten.mm.default", "second (<script>)", 3e-7),
        ("sum_1", "aten.sum.default", "second (<script>)", 0.0),
    ]
    return Depth(
        operators=tuple(
            Operator.from_row(
                {
                    "node": node,
                    "op": op,
                    "module": module,
                    "source": f"model.py:{place} y = x",
                    "shape": [2],
                    "dtype": "float32",
                    "error": 0.5 if node in differ else eager,
                    "eager": eager,
                    "wrong": int(node in differ),
                    "differs": node in differ,
                }
            )
            for place, (node, op, module, eager) in enumerate(rows)
        ),
        call=1,
        note="",
    )


def test_the_first_module_and_the_first_operator_are_named() -> None:
    found = depth("mm_1", "sum_1").to_json()
    assert (found["first_module"], found["first_operator"]) == ("second (<script>)", "mm_1")
    assert [(one["name"], one["operators"], one["first"]) for one in found["modules"]] == [
        ("first (Linear)", 1, ""),
        ("", 1, ""),
        ("second (<script>)", 2, "mm_1"),
    ]
    lines = diff_words.layers(found)
    assert lines[0].startswith("the first to diverge from float64: module second")
    assert "operator mm_1 (aten.mm.default), error 0.5 (eager 3e-07)" in lines[0]
    assert lines[1:] == ["its line: model.py:2 y = x", "this is call 2 of the graph; those before it agree"]
    nothing = depth().to_json()
    assert (nothing["first_module"], nothing["first_operator"]) == (None, None)
    assert "none diverges" in diff_words.layers(nothing)[0]


def test_layers_are_in_the_page_the_picture_and_the_schema() -> None:
    diff, pictures = diff_of([1.0, 2.0], [1.0, 3.0])
    diff["layers"] = depth("mm_1").to_json()
    picture = depth_plot.over_operators(depth("mm_1"))
    assert picture is not None and picture.words == "4 operators of 4; the first to diverge is mm_1"
    page = diff_page.render(diff, [picture, *pictures])
    assert "<script" not in page and "Layer by layer" in page and "model.py:2 y = x" in page
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for values in ([1.0, np.inf], [np.nan, 3.0]):
        made, _ = diff_of(values, [1.0, 3.0])
        made["layers"] = diff["layers"]
        assert [error.message for error in validator.iter_errors(json.loads(json_text(made)))] == []
    diff["layers"]["operators"][0]["wrong"] = -1
    assert not validator.is_valid(json.loads(json_text(diff)))


def test_an_output_that_shares_other_memory_is_told_and_is_no_difference() -> None:
    sides = []
    for shares in ("args[0]", ""):
        data = np.ones(2, dtype=np.float32)
        key = ("f", 0, 0, "output", "out")
        record = Record(kind="tensor", dtype="float32", shape=(2,), data=data, shares=shares)
        sides.append(Recording(entries={key: Entry(key=key, record=record)}))
    (pair,) = pairs(*sides)
    assert pair.comparison.same and pair.to_json()["aliasing"] == {"test": "args[0]", "reference": ""}
    diff, _ = diff_of([1.0], [1.0])
    diff["rows"] = [pair.to_json()]
    told = "aliasing drift: out shares memory with args[0] under inductor, with nothing under eager"
    assert told in diff_words.notes(diff)


def test_layers_are_of_inductor_alone() -> None:
    ended = CliRunner().invoke(cli, ["diff", "--layers", "--test", "aot", __file__])
    assert "--layers looks into the kernels of inductor" in str(ended.exception)


def test_the_kernels_are_asked_only_where_values_differ_and_until_an_operator_does() -> None:
    def ran(*rows: bool, status: Status = Status.OK) -> Any:
        row = {"node": "sin", "op": "aten.sin.default", "shape": [2], "dtype": "float32", "wrong": 0}
        graphs = [{"rows": [{**row, "error": 0.0, "eager": 0.0, "differs": one}]} for one in rows]
        facts = {"divergence": {"graphs": graphs}}
        notes = () if rows else ("not here",)
        return SimpleNamespace(outcome=Outcome(status=status, facts=facts, notes=notes))

    different, same = pairs(*sides([1.0], [2.0])), pairs(*sides([1.0], [1.0]))
    comparison = _Comparison(names=("eager", "inductor"), config=ComparisonConfig(), layers=None)
    comparison.found = different
    (question,) = comparison.next_questions([ran(), ran(), ran(False)])
    assert question.switches == AS_IS
    assert comparison.next_questions([ran(), ran(), ran(True)]) == []
    assert comparison.next_questions([ran(), ran(), ran(status=Status.NOT_APPLICABLE)]) == []
    found = comparison.depth([ran(), ran(), ran(False), ran(True)])
    assert found is not None and found.first is not None
    assert found.note.startswith("no operator differs when every intermediate is materialized")
    assert comparison.unseen([ran(), ran(), ran(status=Status.NOT_APPLICABLE)]) == [
        "no per-operator comparison: not here"
    ]
    comparison.found = same
    assert comparison.next_questions([ran(), ran(), ran(False)]) == []

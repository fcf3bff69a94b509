"""Scripts in generated surroundings: what the generator writes, and how the answers are scored."""

import ast
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import fuzz  # noqa: E402
from golden import Case, Grade, Score, load_cases  # noqa: E402
from harness import Bisection, ProcessExit  # noqa: E402
from surroundings import SURROUNDINGS, NotSimpleError, surround  # noqa: E402

CALL = '''"""A script."""
import torch
import torch.nn.functional as F


def fn(t):
    return F.celu(t) + torch.tanh(t)


def grad(f):
    t = torch.ones(3, requires_grad=True)
    f(t).sum().backward()
    return t.grad


t = torch.linspace(0, 1, 4)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))
torch.testing.assert_close(grad(torch.compile(fn)), grad(fn))
'''
DECORATED = """import torch


@torch.compile(fullgraph=True)
def fn(t):
    return t.sin()


t = torch.full((2,), 0.5)
assert fn(t).sum() < 1
"""
INSTANCE = """import torch

net = torch.nn.Linear(2, 2)
got = torch.compile(net)(torch.ones(2))
assert got.shape == net.weight[0].shape
"""
WHOLE = {"call": CALL, "decorated": DECORATED}


@pytest.mark.parametrize(
    ("script", "surrounding"),
    [("call", name) for name in SURROUNDINGS]
    + [("decorated", name) for name in SURROUNDINGS if name != "silent"],
)
def test_the_same_seed_gives_the_same_script_with_the_function_once(surrounding, script):
    text = surround(WHOLE[script], surrounding, 3)
    assert surround(WHOLE[script], surrounding, 3) == text
    tree = ast.parse(text)
    made = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "fn"]
    want = next(n for n in ast.parse(WHOLE[script]).body if isinstance(n, ast.FunctionDef))
    assert [ast.dump(n.args) + "".join(map(ast.dump, n.body)) for n in made] == [
        ast.dump(want.args) + "".join(map(ast.dump, want.body))
    ]
    assert text.count("torch.compile(") >= ast.unparse(ast.parse(WHOLE[script])).count("torch.compile(")


@pytest.mark.parametrize("surrounding", ["module", "regions", "loader"])
def test_another_seed_gives_another_script(surrounding):
    assert len({surround(CALL, surrounding, seed) for seed in range(12)}) > 1


def test_a_module_takes_the_functions_place_in_both_halves_of_the_check():
    tree = ast.parse(surround(CALL, "module", 0))
    last = ast.unparse(tree.body[-1])
    assert last == "torch.testing.assert_close(grad(torch.compile(model)), grad(model))"
    calls = [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Call)]
    assert calls.count("fn(*args, **kwargs)") == 1
    assert not any(call.startswith("torch.compile(fn") for call in calls)


def test_an_instance_is_put_into_the_module_and_keeps_its_attributes():
    tree = ast.parse(surround(INSTANCE, "module", 0))
    assert ast.unparse(tree.body[-1]) == "assert got.shape == net.weight[0].shape"
    assert ast.unparse(tree.body[-2]) == "got = torch.compile(model)(torch.ones(2))"


def test_regions_come_before_and_after_each_call_and_share_no_operator_with_the_script():
    for seed in range(12):
        tree = ast.parse(surround(CALL, "regions", seed))
        compiled = [
            ast.unparse(n)
            for n in tree.body
            if isinstance(n, ast.FunctionDef)
            and list(map(ast.unparse, n.decorator_list)) == ["torch.compile"]
        ]
        assert len(compiled) == 2
        assert not any("tanh" in text or "sum" in text for text in compiled)
        assert "between(torch.compile(fn))(t)" in ast.unparse(tree)
        assert "grad(between(torch.compile(fn)))" in ast.unparse(tree)


def test_a_decorated_function_is_wrapped_where_it_is_compiled():
    assert "fn = between(torch.compile(fn, fullgraph=True))" in surround(DECORATED, "regions", 0)


def test_dynamic_is_said_once():
    assert surround(DECORATED, "dynamic", 0).count("torch.compile(fn, fullgraph=True, dynamic=True)") == 1
    with pytest.raises(NotSimpleError, match="dynamic"):
        surround(DECORATED.replace("fullgraph=True", "dynamic=False"), "dynamic", 0)


def test_bf16_changes_the_floats_that_are_made_outside_the_function():
    text = surround(CALL, "bf16", 0)
    assert "torch.linspace(0, 1, 4, dtype=torch.bfloat16)" in text
    assert "torch.ones(3, requires_grad=True, dtype=torch.bfloat16)" in text
    assert "torch.full((2,), 0.5, dtype=torch.bfloat16)" in surround(DECORATED, "bf16", 0)
    with pytest.raises(NotSimpleError, match="no float"):
        surround(DECORATED.replace("torch.full((2,), 0.5)", "torch.arange(2)"), "bf16", 0)


def test_no_grad_holds_from_the_first_compiled_use_on():
    body = ast.parse(surround(CALL, "no_grad", 0)).body
    assert isinstance(body[-1], ast.With)
    assert ast.unparse(body[-1].items[0]) == "torch.no_grad()"
    assert len(body[-1].body) == 2
    assert ast.unparse(body[-2]) == "t = torch.linspace(0, 1, 4)"


def test_the_loader_gives_the_arguments_of_each_call():
    text = surround(CALL, "loader", 0)
    assert "fed(torch.compile(fn))(t), fn(t)" in text
    assert text.count("num_workers=1") == 1


def test_a_silent_script_prints_what_it_compared():
    body = ast.parse(surround(CALL, "silent", 0)).body
    assert [ast.unparse(s) for s in body[-2:]] == [
        "print(torch.compile(fn)(t), fn(t))",
        "print(grad(torch.compile(fn)), grad(fn))",
    ]
    with pytest.raises(NotSimpleError, match="does not compare"):
        surround(INSTANCE, "silent", 0)
    with pytest.raises(NotSimpleError, match="tolerances"):
        surround(CALL.replace("fn(t))", "fn(t), rtol=0, atol=0)"), "silent", 0)


def test_names_of_the_script_are_not_taken():
    text = surround(CALL.replace("grad", "model"), "module", 0)
    assert "model2 = Model()" in text


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.compile(lambda t: t)(1)\n",
        "import torch\n",
        "import torch\ndef a(t): pass\ndef b(t): pass\ntorch.compile(a)\ntorch.compile(b)\n",
        "import torch\nfor k in 1, 2:\n    def a(t): pass\n    torch.compile(a)\n",
        "import torch\ndef a(t): pass\ntorch.compile(a)\ndef a(t): return 1\n",
    ],
)
def test_what_is_not_simple_is_refused(source):
    with pytest.raises(NotSimpleError):
        surround(source, "regions", 0)


def test_most_golden_cases_can_be_put_into_surroundings():
    taken = [case for case in load_cases() if not fuzz.simple(case, "2.13.0")]
    assert len(taken) >= 50
    assert {"inject-aot", "inject-lowering", "inject-scheduler"} <= {case.slug for case in taken}
    for case in taken:
        for surrounding in ("module", "regions", "no_grad", "loader"):
            text = surround((case.folder / "repro.py").read_text(encoding="utf-8"), surrounding, 1)
            compile(text, case.slug, "exec")


# -- the driver ------------------------------------------------------------------------------------


def case(slug="1-x", **changes):
    values = {"title": "t", "symptom": "s", "status": "fails", "stages": ("lowering",)}
    made = {"slug": slug, "folder": Path("/nowhere"), "fails_on": ("2.13.0",), **values, **changes}
    return Case(**made)


def test_each_case_comes_once_before_any_comes_again():
    cases = [case(slug) for slug in "abcd"]
    pairs = fuzz.work(cases, ["module", "regions"], 1)
    assert len(set(pairs_of(pairs))) == 8
    assert {c.slug for c, _ in pairs[:4]} == set("abcd")
    assert pairs_of(pairs) == pairs_of(fuzz.work(cases, ["module", "regions"], 1))
    assert pairs_of(pairs) != pairs_of(fuzz.work(cases, ["module", "regions"], 2))


def pairs_of(pairs):
    return [(c.slug, name) for c, name in pairs]


STDERR = """noise
Traceback (most recent call last):
  File "/tmp/a1/x.py", line 3, in <module>
    assert_close(a, b)
torch._dynamo.exc.TorchRuntimeError: shape 'aten.x' of 12 and 0x7f9a

Set TORCHDYNAMO_VERBOSE=1: for more
"""


def test_endings_are_compared_without_numbers_and_names():
    assert fuzz.error_of(STDERR) == "torch._dynamo.exc.TorchRuntimeError: shape N of N and N"
    assert fuzz.error_of(STDERR) == fuzz.error_of(STDERR.replace("12", "7").replace("aten.x", "y"))
    assert fuzz.error_of(STDERR) != fuzz.error_of(STDERR.replace("TorchRuntimeError", "Unsupported"))
    assert fuzz.error_of("AssertionError\n") == "AssertionError"


class FakeBench(fuzz.Bench):
    """Plain runs by rule: the script's own, and those of one that was put somewhere."""

    original_ends = fuzz.Ending(code=1, error="AssertionError")
    surrounded_ends = fuzz.Ending(code=1, error="AssertionError")
    eager_ends = fuzz.Ending(code=0, error="")
    mended_ends = fuzz.Ending(code=0, error="")

    def plain(self, case, script, *, eager, python=""):
        if python:
            return self.mended_ends
        if eager:
            return self.eager_ends
        return self.original_ends if script.name == "repro.py" else self.surrounded_ends


def bench(**changes):
    made = FakeBench(python="p", build="2.13.0", healthy="q", healthy_build="2.14.1")
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def test_a_script_counts_only_if_it_still_fails_in_the_same_way(tmp_path):
    script = tmp_path / "x.py"
    mended = case(passes_on=("2.14.1",))
    assert bench().differs(mended, script, "module") == ""
    other = fuzz.Ending(code=1, error="ValueError: x")
    late = fuzz.Ending(code=None, error="")
    assert "in time" in bench(surrounded_ends=late).differs(mended, script, "module")
    assert "otherwise" in bench(surrounded_ends=other).differs(mended, script, "module")
    assert "mended" in bench(mended_ends=other).differs(mended, script, "module")
    assert bench(mended_ends=other).differs(case(), script, "module") == ""  # nobody knows of that build


def test_a_silent_script_counts_if_it_ends_well_and_the_case_compares_values(tmp_path):
    script, well = tmp_path / "x.py", fuzz.Ending(code=0, error="")
    compares = fuzz.Ending(code=1, error="AssertionError: Tensor-likes are not close!")
    uncompiled = {"eager_ends": well, "mended_ends": well}
    assert (
        bench(original_ends=compares, surrounded_ends=well, **uncompiled).differs(case(), script, "silent")
        == ""
    )
    assert "otherwise" in bench(original_ends=compares, **uncompiled).differs(case(), script, "silent")
    assert "comparison of values" in bench(surrounded_ends=well, **uncompiled).differs(
        case(), script, "silent"
    )


def test_a_script_that_fails_uncompiled_is_dropped(tmp_path):
    class Uncompiled(FakeBench):
        def plain(self, case, script, *, eager, python=""):
            if eager and script.name != "repro.py":
                return fuzz.Ending(code=1, error="AssertionError")
            return super().plain(case, script, eager=eager, python=python)

    assert "nothing compiled" in Uncompiled(python="p", build="2.13.0").differs(
        case(), tmp_path / "x.py", "module"
    )


def test_a_silent_case_is_dropped_as_nothing_shows_it():
    row = fuzz.one(bench(original_ends=fuzz.Ending(code=0, error="")), case(), "module", 0)
    assert row.score is None
    assert "silent" in row.dropped


def test_a_kept_script_is_bisected_and_graded(tmp_path, monkeypatch):
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "repro.py").write_text(CALL, encoding="utf-8")
    found = {"verdict": "fails", "culprits": [{"stage": "lowering", "confidence": "proven"}], "probes": 9}
    asked = []

    def bisect(python, command, **options):
        asked.append((Path(command[0]).read_text(encoding="utf-8"), options["out"]))
        ended = ProcessExit(code=1, seconds=3.0, cpu_s=1.0, stdout="", stderr="")
        return Bisection(ended=ended, findings=found)

    monkeypatch.setattr(fuzz, "run_bisect", bisect)
    known = Case(**{**case().__dict__, "folder": folder})
    row = fuzz.one(bench(keep=tmp_path / "kept"), known, "dynamic", 7)
    assert row.score is not None and row.score.grade is Grade.RIGHT
    assert (row.probes, row.seconds, row.seed) == (9, 3.0, 7)
    assert "dynamic=True" in asked[0][0]
    kept = tmp_path / "kept" / "1-x_dynamic_7.py"
    assert kept.read_text(encoding="utf-8") == asked[0][0]
    assert asked[0][1] == str(kept.with_suffix(""))


def row(value, *, proven_wrong=False, **changes):
    score = Score(grade=value, answer="lowering", wrong_as_proven=proven_wrong, **changes)
    return fuzz.Row(case="c", surrounding="module", seed=1, build="2.13.0", score=score)


def test_exit_code():
    right = [row(Grade.RIGHT)] * 19
    assert fuzz.exit_code([*right, row(Grade.WRONG)]) == 0
    assert fuzz.exit_code([*right, row(Grade.NO_ANSWER)]) == 0
    assert fuzz.exit_code([*right[1:], row(Grade.WRONG)]) == 1
    assert fuzz.exit_code([*right, row(Grade.WRONG, proven_wrong=True)]) == 1
    assert fuzz.exit_code([row(Grade.CANNOT_TELL)]) == 0
    assert fuzz.exit_code([]) == 0


def test_summary_and_table_count_what_was_dropped():
    dropped = fuzz.Row(case="d", surrounding="bf16", seed=1, build="2.13.0", dropped="does not fail")
    rows = [row(Grade.RIGHT, component_right=True), row(Grade.WRONG, proven_wrong=True), dropped]
    summary = fuzz.summarise(rows)
    assert summary["scripts"] == 2
    assert summary["grades"] == {"right": 1, "wrong": 1}
    assert summary["wrong"] == summary["wrong_as_proven"] == ["c in module 1 on 2.13.0"]
    assert summary["components"] == {"right": 1, "known": 1}
    assert summary["dropped"] == {"bf16: does not fail": 1}
    lines = fuzz.table(rows).splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("WRONG AS PROVEN")
    assert json.loads(json.dumps([r.to_json() for r in rows]))[2]["dropped"] == "does not fail"

"""The localization score's pure parts, on made-up findings: what counts as right, coarse, partial, wrong."""

import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import flaky  # noqa: E402
import overhead  # noqa: E402
from accel_lab.execution.notebooks import script_of  # noqa: E402
from golden import Case, Grade, Score, grade, load_case, load_cases, release, stage_matches  # noqa: E402
from harness import missing_modules, parse_findings, parse_torch_bisector, run_command  # noqa: E402
from localize import Options, Row, collect, exit_code, parse, plain_limit, summarise, table, torch_verdict  # noqa: E402


def case(**changes):
    values = {
        "slug": "1-x",
        "folder": Path("/nowhere"),
        "title": "t",
        "symptom": "s",
        "status": "fails",
        "stages": ("decomposition",),
        "fails_on": ("2.13.0",),
        "passes_on": ("2.14.1",),
    }
    return Case(**{**values, **changes})


def findings(*stages, verdict="fails", confidence="proven", component=None):
    rows = [{"stage": s, "confidence": confidence, "component": component} for s in stages]
    return {"verdict": verdict, "culprits": rows, "culprit": rows[0] if rows else None, "probes": 7}


@pytest.mark.parametrize(
    ("expected", "found", "want"),
    [
        (case(), findings("decomposition"), Grade.RIGHT),
        (case(), findings("fx_passes", confidence="likely"), Grade.WRONG),
        (case(), findings(verdict="inconclusive"), Grade.CANNOT_TELL),
        (case(), findings("decomposition", confidence="inconclusive"), Grade.CANNOT_TELL),
        (case(), findings(verdict="passes"), Grade.WRONG),
        (case(flaky=True), findings(verdict="passes"), Grade.CANNOT_TELL),
        (case(), None, Grade.NO_ANSWER),
        (case(stages=("lowering",)), findings("kernel"), Grade.COARSE),
        (case(stages=("kernel",)), findings("codegen"), Grade.RIGHT),
        (case(stages=("lowering", "codegen")), findings("scheduler"), Grade.WRONG),
        (case(stages=("dynamo",)), findings("kernel"), Grade.WRONG),
        (case(also=("lowering",)), findings("decomposition"), Grade.PARTIAL),
        (case(also=("lowering",)), findings("decomposition", "kernel"), Grade.RIGHT),
        (case(also=("lowering",)), findings("lowering", "decomposition"), Grade.RIGHT),
        (case(also=("lowering",)), findings("codegen", "decomposition"), Grade.WRONG),
    ],
)
def test_grade_on_a_build_that_fails(expected, found, want):
    assert grade(expected, "2.13.0", found).grade is want


@pytest.mark.parametrize(
    ("found", "want"),
    [
        (findings(verdict="passes"), Grade.RIGHT),
        (findings("dynamo"), Grade.WRONG),
        (findings(verdict="inconclusive"), Grade.CANNOT_TELL),
    ],
)
def test_grade_on_a_build_that_passes(found, want):
    assert grade(case(), "2.14.1", found).grade is want


def test_a_build_that_nobody_ran_is_graded_by_the_status():
    assert grade(case(), "2.9.0", findings("decomposition")).grade is Grade.RIGHT
    assert grade(case(status="passes"), "2.9.0", findings(verdict="passes")).grade is Grade.RIGHT


def test_wrong_as_proven_is_seen_in_any_culprit():
    assert grade(case(), "2.13.0", findings("fx_passes")).wrong_as_proven
    assert not grade(case(), "2.13.0", findings("fx_passes", confidence="likely")).wrong_as_proven
    second = findings("decomposition", "dynamo")
    assert grade(case(), "2.13.0", second).wrong_as_proven
    assert grade(case(), "2.14.1", findings("decomposition")).wrong_as_proven
    assert not grade(case(stages=("lowering",)), "2.13.0", findings("kernel")).wrong_as_proven


def test_a_build_can_have_another_bug():
    other = case(fails_on=("2.13.0", "2.14.1"), passes_on=(), on={"2.14.1": {"stages": ["lowering"]}})
    assert grade(other, "2.13.0", findings("decomposition")).grade is Grade.RIGHT
    assert grade(other, "2.14.1", findings("decomposition")).grade is Grade.WRONG
    assert grade(other, "2.14.1", findings("lowering")).grade is Grade.RIGHT


@pytest.mark.parametrize(
    ("want", "named", "right"),
    [
        ("aten.avg_pool2d_backward", "aten.avg_pool2d_backward.default", True),
        ("aten.celu", "aten.celu_.default", True),
        ("aten.celu", "aten.relu.default", False),
        ("my_ops::swap", "my_ops.swap.default", True),
        ("aten.add", "aten.addmm.default", False),
        ("relu", "aten.leaky_relu.default", False),
        ("aten.celu", "a", False),
        ("aten.celu", "aten", False),
        ("aten.celu", "my_ops.celu.default", False),
        ("relu", "aten.relu.default", True),
        ("adler32", "zlib.adler32", True),
        ("aten.min.dim", "aten.min", True),
        ("aten.min.dim", "aten.min.default", False),
        ("aten.bucketize.Scalar", "aten.bucketize.Tensor", False),
        ("aten.sinh", "aten.mul.Tensor, aten.sinh.default", True),
        ("aten.sinh", "aten.mul.Tensor and aten.sinh.default", True),
        ("aten.sinh", "aten.mul.Tensor, aten.sin.default", False),
        ("aten.sinh", "aten.mul.Tensor, aten.sinh.default, aten.add.Tensor", False),
        ("aten.sinh", "aten.sinh.default, aten.sinh.default, aten.sinh.default", True),
        ("overlap(p, q)", "overlap(p, q)", True),
        ("overlap(p, q)", "overlap(p, r)", False),
        ("torch.get_default_dtype()", "torch.get_default_dtype()", True),
        ("remove_no_ops", "remove_noop_ops", False),
        ("history", "history (list)", True),
        ("history", "history (list), t.grad (Tensor)", True),
        ("aten.bitwise_left_shift", "aten.__lshift__.Tensor", False),
        ("aten.celu", None, False),
        (None, "aten.celu", None),
    ],
)
def test_component(want, named, right):
    found = findings("decomposition", component={"kind": "op", "name": named} if named else None)
    assert grade(case(component=want), "2.13.0", found).component_right is right


def test_an_open_component_may_be_left_out_and_is_counted_when_it_is_right():
    known = case(component="aten.celu", component_open="the failure is flaky")
    assert grade(known, "2.13.0", findings("decomposition")).component_right is None
    celu = {"kind": "op", "name": "aten.celu.default"}
    assert grade(known, "2.13.0", findings("decomposition", component=celu)).component_right is True


def test_the_component_is_that_of_the_culprit_in_the_stated_stage():
    both = case(component="aten.celu", also=("lowering",))
    found = findings("lowering", "decomposition")
    found["culprits"][0]["component"] = {"kind": "op", "name": "aten.sin.default"}
    found["culprits"][1]["component"] = {"kind": "op", "name": "aten.celu.default"}
    assert grade(both, "2.13.0", found).component_right is True


def test_another_bug_on_one_build_has_a_component_of_its_own():
    other = case(component="aten.celu", on={"2.13.0": {"stages": ["lowering"]}, "2.9.0": {"component": "x"}})
    assert other.component_on("2.13.0") is None
    assert other.component_on("2.9.0") == "x"
    assert other.component_on("2.14.1") == "aten.celu"


@pytest.mark.parametrize(("summary", "want"), [("compiled again: f 7 times", Grade.RIGHT), ("", Grade.WRONG)])
def test_a_case_can_demand_a_sentence(summary, want):
    known = case(status="passes", stages=(), fails_on=(), passes_on=("2.13.0",), says=(r"again: f \d times",))
    score = grade(known, "2.13.0", {**findings(verdict="passes"), "summary": summary, "next_steps": None})
    assert score.grade is want


def test_kernel_and_its_parts_stand_for_one_another():
    assert stage_matches("kernel", ["codegen"])
    assert stage_matches("scheduler", ["kernel"])
    assert not stage_matches("scheduler", ["codegen"])
    assert not stage_matches("kernel", ["fx_passes"])


def test_release():
    assert release("2.13.0+cpu") == "2.13.0"
    assert release("2.14.1") == "2.14.1"


def write_case(folder, text):
    folder.mkdir()
    (folder / "expect.toml").write_text(text, encoding="utf-8")
    (folder / "repro.py").write_text("import torch\n", encoding="utf-8")
    return folder


def test_a_whole_name_chooses_one_case(tmp_path):
    for slug in ("inject-a", "inject-a-raises", "hand-b"):
        write_case(tmp_path / slug, GOOD)
    assert [c.slug for c in load_cases(tmp_path, ["inject-a"])] == ["inject-a"]
    assert [c.slug for c in load_cases(tmp_path, ["inject"])] == ["inject-a", "inject-a-raises"]
    assert len(load_cases(tmp_path)) == 3


GOOD = 'title = "t"\nsymptom = "s"\nstatus = "fails"\nstages = ["dynamo"]\n'


def test_load_case(tmp_path):
    text = GOOD + 'fails_on = ["2.13.0"]\nargs = ["--timeout", "30"]\n'
    loaded = load_case(write_case(tmp_path / "7-a", text))
    assert loaded.slug == "7-a"
    assert loaded.fails("2.13.0") is True
    assert loaded.fails("2.14.1") is None
    assert loaded.command == [str(tmp_path / "7-a" / "repro.py")]
    assert plain_limit(loaded.args) == 30


def test_command_of_a_module_case(tmp_path):
    folder = write_case(tmp_path / "m", GOOD + 'run = ["-m", "pytest", "repro.py"]\n')
    assert load_case(folder).command == ["-m", "pytest", str(folder / "repro.py")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('stage = "dynamo"', "unknown keys"),
        ('also = ["linker"]', "no such stage"),
        ('fails_on = ["2.1.0"]\npasses_on = ["2.1.0"]', "both fails and passes"),
        ('component_open = "it is flaky"', "none is stated"),
        ('component = "x"\ncomponent_open = true', "say why"),
        ("cannot_tell = true", "say why"),
        ('fails_on = ["2.1.0"]\n[on."2.1.0"]\nstage = ["dynamo"]', "unknown keys"),
        ('fails_on = ["2.1.0"]\n[on."2.1.0"]\ncomponent_open = "x"', "none is stated"),
        ('[on."2.1.0"]\nstages = ["dynamo"]', "not among the builds"),
    ],
)
def test_load_case_refuses(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        load_case(write_case(tmp_path / "x", GOOD + line + "\n"))


def test_a_build_says_why_it_has_no_answer(tmp_path):
    text = GOOD + 'component = "x"\nfails_on = ["2.1.0", "2.2.0"]\n[on."2.1.0"]\n'
    text += 'cannot_tell = "no loop IR there"\ncomponent_open = "no hook there"\n'
    loaded = load_case(write_case(tmp_path / "x", text))
    assert loaded.cannot_tell_on("2.1.0") == "no loop IR there"
    assert loaded.component_open_on("2.1.0") == "no hook there"
    assert (loaded.cannot_tell_on("2.2.0"), loaded.component_open_on("2.2.0")) == ("", "")


def test_load_case_refuses_another_status(tmp_path):
    with pytest.raises(ValueError, match="status"):
        load_case(write_case(tmp_path / "x", GOOD.replace("fails", "maybe")))


def test_every_committed_case_loads_and_has_its_script():
    cases = load_cases()
    assert len({c.slug for c in cases}) == len(cases) >= 60
    for loaded in cases:
        assert loaded.stages or loaded.status in ("passes", "outside", "by_design"), loaded.slug
        files = [word for word in loaded.command if word.startswith(str(loaded.folder))]
        assert files, f"{loaded.slug}: none of {loaded.run} is a file of the case"
        for name in files:
            text = Path(name).read_text(encoding="utf-8")
            compile(script_of(text.encode(), Path(name)) if name.endswith(".ipynb") else text, name, "exec")


def test_outside_is_right_only_if_it_is_said_and_no_stage_is_named(tmp_path):
    made = GOOD.replace('status = "fails"', 'status = "outside"')
    assert made != GOOD
    loaded = load_case(write_case(tmp_path / "x", made))
    said = {"verdict": "inconclusive", "outside": "it fails in torch.jit.script", "culprits": []}
    assert grade(loaded, "2.0.0", said).grade is Grade.RIGHT
    assert grade(loaded, "2.0.0", {**said, "outside": ""}).grade is Grade.WRONG
    blamed = {"verdict": "fails", "outside": "", "culprits": [{"stage": "eager", "confidence": "likely"}]}
    assert grade(loaded, "2.0.0", blamed).grade is Grade.WRONG


def row(value, *, scored=True, proven_wrong=False, **changes):
    score = Score(grade=value, answer="dynamo", confidence="likely", wrong_as_proven=proven_wrong)
    values = {"slug": "c", "build": "2.13.0", "scored": scored, "score": score, "want": ("dynamo",)}
    return Row(**{**values, **changes})


def test_exit_code_is_1_only_for_a_wrong_stage_that_counts():
    assert exit_code([row(Grade.RIGHT), row(Grade.COARSE), row(Grade.CANNOT_TELL), row(Grade.PARTIAL)]) == 0
    assert exit_code([row(Grade.RIGHT), row(Grade.WRONG)]) == 1
    assert exit_code([row(Grade.WRONG, scored=False)]) == 0
    assert exit_code([row(Grade.WRONG, scored=False, proven_wrong=True)]) == 1


def test_summary_counts_and_ratios():
    rows = [
        row(Grade.RIGHT, seconds=30.0, plain_s=15.0, torch_answer="dynamo", torch_right=True, torch_s=90.0),
        row(
            Grade.WRONG,
            slug="w",
            seconds=60.0,
            plain_s=15.0,
            torch_answer="",
            torch_right=False,
            torch_s=10.0,
        ),
        row(Grade.WRONG, slug="free", scored=False),
    ]
    summary = summarise(rows)
    assert summary["cases"] == 3
    assert summary["scored"] == 2
    assert summary["grades"]["right"] == 1
    assert summary["grades"]["wrong"] == 1
    assert summary["wrong"] == ["w on 2.13.0"]
    assert summary["wrong_as_proven"] == []
    assert summary["median_ratio"] == 3.0
    assert summary["worst_ratio"] == 4.0
    assert summary["torch_bisector"] == {"asked": 2, "right": 1, "seconds": 100.0}


def test_summary_of_nothing():
    summary = summarise([])
    assert summary["median_ratio"] is None
    assert summary["torch_bisector"] is None


def test_table_has_a_line_per_row_and_marks_what_is_not_scored():
    lines = table([row(Grade.RIGHT), row(Grade.WRONG, scored=False, proven_wrong=True)]).splitlines()
    assert len(lines) == 4
    assert "dynamo (likely)" in lines[2]
    assert "wrong PROVEN WRONG *" in lines[3]


def test_rows_survive_json():
    data = json.loads(json.dumps(row(Grade.RIGHT, seconds=30.0, plain_s=20.0).to_json()))
    assert data["ratio"] == 1.5
    assert data["score"]["grade"] == "right"


def test_options():
    options = parse(["--python", "a", "--python", "b", "--jobs", "2", "--plain", "cumsum"])
    assert options.pythons == ("a", "b")
    assert options.names == ("cumsum",)
    assert options.jobs == 2
    assert options.plain
    assert not options.torch_bisector


def test_collect_says_where_torch_is_missing():
    with pytest.raises(SystemExit, match="no torch there"):
        collect(Options(pythons=("/bin/false",)))


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("Bisection complete: no issue found", "passes"),
        ("noise", ""),
        ("Bisection complete: BisectionResult(backend='eager', subsystem=None)", "dynamo"),
        ("Bisection complete: BisectionResult(backend='aot_eager', subsystem=None)", "aot_autograd"),
        (
            "x\nBisection complete: BisectionResult(backend='aot_eager_decomp_partition', "
            "subsystem='decomposition', bisect_number=3, debug_info='sinh')\n",
            "decomposition",
        ),
        ("Bisection complete: BisectionResult(backend='inductor', subsystem='pre_grad_passes')", "fx_passes"),
        ("Bisection complete: BisectionResult(backend='inductor', subsystem='lowerings')", "lowering"),
        ("Bisection complete: BisectionResult(backend='inductor', subsystem='fallback_random')", "kernel"),
        ("Bisection complete: BisectionResult(backend='inductor', subsystem=None)", "kernel"),
    ],
)
def test_torch_bisector_answers(text, stage):
    assert parse_torch_bisector(text) == stage


def test_torch_is_measured_by_the_same_rule():
    assert torch_verdict(case(stages=("codegen",)), "2.13.0", "kernel")
    assert not torch_verdict(case(), "2.13.0", "kernel")
    assert torch_verdict(case(), "2.14.1", "passes")
    assert not torch_verdict(case(), "2.14.1", "dynamo")


def test_findings_are_taken_only_whole():
    good = json.dumps({"schema": "accel-lab/findings/1", "verdict": "passes"})
    assert parse_findings(good) == {"schema": "accel-lab/findings/1", "verdict": "passes"}
    assert parse_findings("probe 1\n" + good) is None
    assert parse_findings(json.dumps({"schema": "other"})) is None
    assert parse_findings("[]") is None


def test_what_outlives_its_timeout_is_ended_with_its_group(tmp_path):
    note = tmp_path / "pid"
    code = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    ended = run_command([sys.executable, "-c", code], env=os.environ, timeout_s=10)
    assert ended.code is None
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_missing_modules():
    assert missing_modules(sys.executable, ()) == []
    assert missing_modules(sys.executable, ["json", "no_such_module_at_all"]) == ["no_such_module_at_all"]


def test_flaky_scripts_are_python_and_cover_every_stage():
    stages = set()
    for seed in range(8):
        text = flaky.script(0.7, seed)
        compile(text, "flaky.py", "exec")
        assert "os.urandom" in text
        assert "0.7 * 2**32" in text
        stages.add(flaky.stage_for(seed))
    assert stages == {"decomposition", "fx_passes", "lowering", "aot_autograd"}


def trial(value, *, rate=0.9, proven_wrong=False):
    score = Score(grade=value, wrong_as_proven=proven_wrong)
    return flaky.Trial(rate=rate, seed=0, stage="lowering", score=score, probes=10, seconds=2.0)


def test_flaky_summary_and_exit_code():
    trials = [trial(Grade.RIGHT), trial(Grade.CANNOT_TELL), trial(Grade.RIGHT, rate=0.7)]
    summary = flaky.summarise(trials)
    assert list(summary) == ["0.9", "0.7"]
    assert summary["0.9"]["grades"] == {"right": 1, "cannot tell": 1}
    assert summary["0.7"]["grades"] == {"right": 1}
    assert summary["0.7"]["probes"] == 10
    assert summary["0.9"]["wrong_as_proven"] == 0
    assert flaky.exit_code(trials) == 0
    assert flaky.exit_code([*trials, trial(Grade.WRONG)]) == 0
    assert flaky.exit_code([*trials, trial(Grade.WRONG, proven_wrong=True)]) == 1
    assert flaky.exit_code([trial(Grade.NO_ANSWER)]) == 1


def test_overhead_report():
    one = overhead.Sample(slug="a", plain_s=10.0, bisect_s=30.0, probes_s=25.0, cold_s=20.0, probes=7)
    two = overhead.Sample(slug="b", plain_s=10.0, bisect_s=20.0, probes_s=18.0, cold_s=20.0, probes=7)
    result = overhead.report("2.14.1", 0.2, [one, two])
    assert result["median_ratio"] == 2.5
    assert result["worst_ratio"] == 3.0
    assert result["samples"][0]["floor_ratio"] == 2.0
    assert result["samples"][0]["beside_probes_s"] == 5.0


def test_overhead_cases_exist():
    assert set(overhead.DEFAULT_CASES) <= {c.slug for c in load_cases()}

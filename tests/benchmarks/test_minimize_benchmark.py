"""The reduction benchmark's pure parts: torch's minifier by its own words, the table, the host scripts."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import graph_size  # noqa: E402
import hosts  # noqa: E402
import minimize  # noqa: E402
from golden import load_case, load_cases  # noqa: E402
from minimize import OURS, SECOND, Job, Row, cells, exit_code, fails_again, find_jobs, speed_ratios, summarise  # noqa: E402
from torch_minifier import (  # noqa: E402
    MODES,
    Failure,
    Minified,
    last_failure,
    parse_printed,
    same_failure,
    wanted_modes,
    why_not,
)

# -- torch's minifier ------------------------------------------------------------------------------


def row(tool=OURS, **changes):
    return Row(**{"case": "a", "tool": tool, **changes})


PRINTED = """\
Started off with 62 nodes
Trying granularity 32

Strategy: Truncate suffix (G: 32) (62 nodes, 10 inputs)
SUCCESS: Went from 62 to 34 nodes
>>  Traceback (most recent call last):
>>  RuntimeError: a candidate's own

Strategy: Delta Debugging (G: 32) (34 nodes, 10 inputs)
FAIL: Delta Debugging
"""


def test_a_run_that_was_stopped_keeps_its_best_size() -> None:
    printed = parse_printed(PRINTED)
    assert (printed.nodes_before, printed.nodes_after) == (62, 34)
    assert printed.queries is None
    assert not printed.finished


def test_a_finished_run_tells_its_queries() -> None:
    text = (
        PRINTED + "SUCCESS: Went from 34 to 3 nodes\nMade 36 queries\nWrote minimal repro out to repro.py\n"
    )
    printed = parse_printed(text)
    assert (printed.nodes_after, printed.queries, printed.finished) == (3, 36, True)


def test_a_size_that_did_not_hold_does_not_count() -> None:
    lost = (
        PRINTED
        + "SUCCESS: Went from 34 to 3 nodes\nWARNING: Something went wrong, not applying this minification\n"
    )
    assert parse_printed(lost).nodes_after == 34
    assert (
        parse_printed(lost + "\nStrategy: Delta Debugging (G: 16) (34 nodes, 9 inputs)\n").nodes_after == 34
    )


def test_nothing_printed_is_nothing_known() -> None:
    printed = parse_printed("")
    assert (printed.nodes_before, printed.nodes_after, printed.queries) == (None, None, None)


INDUCTOR = """\
Traceback (most recent call last):
  File "inner.py", line 1, in f
    raise ValueError("x")
ValueError: The argument 'nan' is not comparable.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "repro.py", line 12, in <module>
    fn()
torch._inductor.exc.InductorError: ValueError: The argument 'nan' is not comparable.

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""

BACKEND = """\
Traceback (most recent call last):
  File "repro.py", line 12, in <module>
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
LoweringException: ValueError: The argument 'nan' is not comparable.
  target: aten.acosh.default
"""

CLOSE = """\
Traceback (most recent call last):
  File "repro.py", line 12, in <module>
AssertionError: Tensor-likes are not close!

Mismatched elements: 3 / 12 (25.0%)
Greatest absolute difference: 1.0 at index (0, 1)
"""


@pytest.mark.parametrize("text", [INDUCTOR, BACKEND])
def test_wrappers_of_an_exception_are_taken_off(text) -> None:
    assert last_failure(text) == Failure(kind="ValueError", message="The argument 'nan' is not comparable.")


def test_the_exception_that_ended_the_process_counts() -> None:
    assert last_failure(CLOSE) == Failure(kind="AssertionError", message="Tensor-likes are not close!")
    assert last_failure("E1128 a log line: Error\n") is None
    assert last_failure("".join(f">>  {line}\n" for line in CLOSE.splitlines())) is None


def test_numbers_in_a_message_do_not_make_another_failure() -> None:
    one, two = (
        last_failure(f"Traceback (most recent call last):\n  x\nRuntimeError: at 0x7f{n}a size {n}\n")
        for n in (1, 23)
    )
    assert one == two == Failure(kind="RuntimeError", message="at N size N")


def test_same_failure() -> None:
    crash, wrong = last_failure(INDUCTOR), last_failure(CLOSE)
    assert same_failure(crash, last_failure(BACKEND))
    assert same_failure(wrong, Failure(kind="AccuracyError", message="Bad accuracy detected"))
    assert not same_failure(crash, Failure(kind="AccuracyError"))
    assert not same_failure(crash, Failure(kind="ValueError", message="another"))
    assert not same_failure(crash, None)
    assert not same_failure(None, None)


def test_why_torch_has_no_result() -> None:
    refused = Failure(kind="RuntimeError", message="Input graph did not fail the tester")
    done = parse_printed("Wrote minimal repro out to repro.py")
    assert why_not(parse_printed(""), refused, "", False) == "its own test passes the graph"
    assert why_not(parse_printed(""), None, "E: Input graph does not fail accuracy testing", False) == (
        "its own test passes the graph"
    )
    assert why_not(parse_printed(PRINTED), None, PRINTED, True) == "stopped at the limit"
    assert why_not(parse_printed(""), Failure(kind="KeyError", message="'a'"), "", False) == "KeyError: 'a'"
    assert why_not(done, None, "", False) == ""
    assert why_not(parse_printed(""), None, "", False) == "ended without a result"


def test_modes() -> None:
    assert wanted_modes([]) == list(MODES)
    assert wanted_modes(["dynamo/4"]) == [("dynamo", 4)]
    with pytest.raises(ValueError, match="aot/3"):
        wanted_modes(["aot/3"])


# -- the rows and the summary ----------------------------------------------------------------------


def repro(**changes):
    return {
        "schema": "accel-lab/findings/1",
        "verdict": "fails",
        "repro": {
            "why_not": "",
            "script": "/run/repro/graph/repro.py",
            "kind": "graph",
            "nodes_before": 300,
            "nodes_after": 3,
            "lines_after": 9,
            "verified": True,
            "minimal": True,
            "candidates": 120,
            "seconds": 30.0,
            "notes": [],
            **changes,
        },
    }


JOB = Job(name="a", script=Path("/nowhere/repro.py"), marks=("minimum",))


def test_findings_become_a_row() -> None:
    (made,) = minimize.rows_of(JOB, repro(), "", 50.0, 80)
    assert (made.nodes_before, made.nodes_after, made.lines_before, made.lines_after) == (300, 3, 80, 9)
    assert made.rate == pytest.approx(4.0)
    assert made.emitted
    assert made.verified


def test_no_repro_says_why() -> None:
    (made,) = minimize.rows_of(JOB, repro(script=None, why_not="too odd", notes=["no graph"]), "", 50.0, 80)
    assert not made.emitted
    assert made.reason == "too odd; no graph"
    assert minimize.rows_of(JOB, None, "Error: bad", 1.0, 80)[0].reason == "Error: bad"
    assert "passes" in minimize.rows_of(JOB, {"verdict": "passes", "repro": None}, "", 1.0, 80)[0].reason


def test_two_repros_are_two_rows_and_the_cost_is_told_once() -> None:
    other = {"kind": "script", "script": "/run/repro/script/repro.py", "lines_after": 12, "verified": True}
    first, second = minimize.rows_of(JOB, repro(other=other), "", 50.0, 80)
    assert (first.kind, second.kind) == ("graph", "script")
    assert (first.candidates, second.candidates, second.rate) == (120, None, None)
    assert second.tool == SECOND
    told = summarise([row(emitted=True, rerun=True), row(SECOND, kind="script", emitted=True, rerun=False)])
    assert (told["cases"], told["emitted"], told["fail_again"]) == (1, 2, 1)
    assert told["not_again"] == ["a (script)"]
    assert told["torch"] == {}


def test_fails_again() -> None:
    close, other = Failure(kind="AssertionError", message="not close"), Failure(kind="ImportError")
    assert fails_again(1, close, 1, Failure(kind="AssertionError", message="not equal"))
    assert not fails_again(1, close, 1, other)
    assert not fails_again(1, close, 0, None)
    assert not fails_again(1, close, 1, None)
    assert fails_again(-11, None, -11, None)
    assert not fails_again(-11, None, 1, other)
    assert fails_again(0, None, 1, close)
    assert not fails_again(0, None, 0, None)


def test_the_ratio_is_taken_over_torchs_quicker_isolating_level() -> None:
    rows = [
        row(candidates=100, seconds=10.0),
        row("torch aot/2", candidates=5, seconds=50.0),
        row("torch aot/4", candidates=10, seconds=50.0),
        row("torch dynamo/2", candidates=900, seconds=1.0),
        row(case="b", candidates=100, seconds=10.0),
        row("torch aot/2", case="b", reason="wrote no launcher"),
    ]
    assert speed_ratios(rows) == {"a": 50.0}


def test_summary() -> None:
    rows = [
        row(
            emitted=True,
            rerun=True,
            marked=True,
            operators={"dynamo": 2, "aten": 3},
            hand_operators={"dynamo": 3, "aten": 5},
        ),
        row(case="b", kind="graph", emitted=True, rerun=False, marked=False),
        row(case="c"),
        row("torch aot/4", emitted=True, rerun=True, marked=False),
        row("torch aot/4", case="b", emitted=True, rerun=False),
    ]
    told = summarise(rows)
    assert (told["cases"], told["emitted"], told["fail_again_share"]) == (3, 2, 0.5)
    assert told["not_again"] == ["b (graph)"]
    assert told["without_culprit"] == ["b (graph)"]
    assert told["operators"]["aten"] == {"ours": 3, "by_hand": 5}
    assert told["torch"] == {"torch aot/4": {"asked": 2, "repros": 2, "usable": 1, "with_culprit": 0}}
    assert told["median_speed_ratio"] is None


def test_only_a_repro_of_ours_that_does_not_hold_fails_the_benchmark() -> None:
    assert (
        exit_code([row(emitted=True, rerun=True), row("torch aot/2", emitted=True, rerun=False), row()]) == 0
    )
    assert exit_code([row(emitted=True, rerun=False)]) == 1
    assert exit_code([row(emitted=True, rerun=None)]) == 1


def test_table() -> None:
    rows = [
        row(nodes_before=62, nodes_after=3, candidates=36, seconds=72.0, rerun=True, marked=False),
        row("torch aot/2", reason="a | b"),
    ]
    lines = minimize.table(rows).splitlines()
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "62 → 3" in lines[2]
    assert "0.50" in lines[2]
    assert "culprit lost" in lines[2]
    assert cells(row(rerun=False))[8] == "NO"


def test_a_row_of_torchs() -> None:
    script = ROOT / "repros" / "194347-minimum-signed-zero" / "repro.py"
    job = Job(name="a", script=script, marks=("minimum",))
    found = Minified(
        mode="aot/4",
        usable=True,
        rerun=True,
        candidates=9,
        seconds=3.0,
        repro="x = relu(y)  # minimum",
        finished=True,
    )
    made = minimize.torch_row(job, found)
    assert (made.tool, made.emitted, made.rerun, made.rate) == ("torch aot/4", True, True, 3.0)
    assert made.lines_before == minimize.code_lines(script.read_text(encoding="utf-8")) > 3
    assert minimize.torch_row(job, Minified(mode="aot/4", reason="wrote no launcher")).emitted is False


def test_marks_are_looked_for_in_code_only() -> None:
    assert minimize.has_marks("y = torch.minimum(a, b)\n", ("minimum",)) is True
    assert minimize.has_marks("# torch.minimum\ny = a\n", ("minimum",)) is False
    assert minimize.has_marks("y = a\n", ()) is None


def test_operators_that_are_counted() -> None:
    class Node:
        def __init__(self, op, target="t"):
            self.op, self.target = op, target

    nodes = [
        Node("placeholder"),
        Node("call_function", len),
        Node("call_method"),
        Node("output"),
        Node("get_attr"),
    ]
    assert graph_size.operators(nodes) == 2


def test_options() -> None:
    given = minimize.parse(["--cases", "198131", "mlp200:198131", "--skip-torch", "--for", "60"])
    assert (given.cases, given.modes, given.seconds) == (("198131", "mlp200:198131"), (), 60.0)
    assert minimize.parse([]).modes == MODES
    with pytest.raises(SystemExit):
        minimize.parse(["--torch-modes", "aot/9"])


# -- the hosts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hosts.names())
def test_a_host_is_a_script_that_holds_its_fault(name, tmp_path) -> None:
    path = hosts.write_host(*hosts.split(name), tmp_path)
    source = path.read_text(encoding="utf-8")
    compile(source, str(path), "exec")
    fault = hosts.FAULTS[name.partition(":")[2]]
    assert minimize.has_marks(source, fault.marks)
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {module.partition(".")[0] for module in imported} == {"torch"}
    assert "accel" not in source
    assert max(len(line) for line in source.splitlines()) <= 110


def test_every_fault_is_a_golden_case_that_fails_on_both_builds() -> None:
    for fault in hosts.FAULTS.values():
        case = load_case(ROOT / "repros" / fault.golden)
        assert {"2.13.0", "2.14.1"} <= set(case.fails_on)


def test_a_pair_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="backward"):
        hosts.split("mlp200:198119")
    with pytest.raises(ValueError, match="transformer"):
        hosts.split("vgg:198131")
    assert "training:198119" in hosts.names()
    assert "mlp200:198119" not in hosts.names()


def test_jobs_of_golden_cases_and_hosts(tmp_path) -> None:
    small, large = find_jobs(["198131", "mlp200:198131"], tmp_path)
    assert small.name == "198131-full-slice-copy"
    assert small.marks == large.marks == hosts.FAULTS["198131"].marks
    assert large.script.parent == tmp_path / "mlp200-198131"
    assert large.hand == small.script
    alike = sum("cumsum" in case.slug for case in load_cases())
    assert alike > 1
    with pytest.raises(ValueError, match=f"{alike} golden cases"):
        find_jobs(["cumsum"], tmp_path)
    with pytest.raises(ValueError, match="0 golden cases"):
        find_jobs(["no case of ours"], tmp_path)

"""The child on a real torch: every form of torch.compile on every rung, recorded, in its own process."""

from __future__ import annotations

import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.child.artifacts import write_json
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober
from accel_lab.execution.run_folder.workspace import Place, Workspace

DATA = Path(__file__).parents[1] / "data"
FORMS = Probe(program=Program(path=str(DATA / "forms.py")), limits=Limits(timeout_s=300.0))
LOWER = [Rung.DYNAMO, Rung.AOT, Rung.META, Rung.PARTITION, Rung.DECOMP, Rung.FX]


def printed(outcome: Outcome) -> str:
    return (Path(outcome.folder) / "stdout.txt").read_text()


def ask(prober: Prober, probe: Probe, rung: Rung, **switches: object) -> Outcome:
    from dataclasses import replace

    return prober.ask(replace(probe, rung=rung, switches=tuple(switches.items())))


def script(tmp_path: Path, text: str) -> Probe:
    path = tmp_path / "script.py"
    path.write_text(text)
    return Probe(program=Program(path=str(path), sha256=str(tmp_path)), limits=Limits(timeout_s=120.0))


@pytest.mark.torch
@pytest.mark.parametrize("rung", LOWER, ids=str)
def test_every_form_of_compile_reaches_the_rung(prober: Prober, rung: Rung) -> None:
    plain = ask(prober, FORMS, Rung.UNCOMPILED)
    outcome = ask(prober, FORMS, rung)
    assert outcome.status is Status.OK, outcome.raised
    assert printed(outcome) == printed(plain)
    regions = outcome.facts["regions"]
    assert len(regions) == 15
    assert all(region["calls"] == 1 for region in regions)
    reached = {region["rung"] for region in regions if region["backend"] == "inductor"}
    assert reached == {rung.value}
    known = {r["backend"]: r["rung"] for r in regions if r["backend"] != "inductor"}
    above = rung in (Rung.PARTITION, Rung.DECOMP, Rung.FX)
    assert known["own_backend"] == ("kernel" if above or rung is Rung.META else rung.value)
    assert known["eager"] in ("dynamo", "kernel")


@pytest.mark.torch
def test_uncompiled_records_every_region_and_compiles_nothing(prober: Prober) -> None:
    outcome = ask(prober, FORMS, Rung.UNCOMPILED)
    assert outcome.facts["counters"].get("stats", {}).get("unique_graphs", 0) == 0
    lines = (Path(outcome.folder) / "records.jsonl").read_text().splitlines()
    calls = [json.loads(line) for line in lines]
    names = {row["name"] for row in calls if row.get("event") == "call" and row["phase"] == "output"}
    assert {"double", "as_decorator", "Net", "nested", "Holder.method", "_inner"} <= names


@pytest.mark.torch
def test_the_fx_rung_leaves_its_graph(prober: Prober) -> None:
    outcome = ask(prober, FORMS, Rung.FX)
    assert "fx" in outcome.facts["reached"]
    graphs = sorted(Path(outcome.folder, "artifacts").glob("post_grad_*.py"))
    assert graphs and any("torch.ops.aten" in g.read_text() for g in graphs)


ALIASED = """
import torch

def scaled(t, by):
    return t / by

t = torch.ones(4)
torch.compile(scaled)(t, 1.0)
"""


@pytest.mark.torch
@pytest.mark.parametrize("rung", [Rung.FX, Rung.LOOPS], ids=str)
def test_a_graph_that_the_passes_leave_empty_is_a_graph(prober: Prober, tmp_path: Path, rung: Rung) -> None:
    outcome = prober.ask(replace(script(tmp_path, ALIASED), rung=rung))
    assert outcome.status is Status.OK, outcome.raised
    assert str(rung) in outcome.facts["reached"]


@pytest.mark.torch
def test_the_operator_whose_code_raised_is_told(prober: Prober, tmp_path: Path) -> None:
    text = "import torch\ntorch.ops.aten.view.default(torch.ones(4), [5])\n"
    outcome = prober.ask(replace(script(tmp_path, text), rung=Rung.UNCOMPILED))
    assert outcome.raised is not None
    assert outcome.raised.operator == "aten.view.default"


@pytest.mark.torch
def test_a_region_can_be_held_on_another_rung(prober: Prober) -> None:
    outcome = ask(prober, FORMS, Rung.DECOMP, hold={"1": "dynamo"})
    rungs = {r["id"]: r["rung"] for r in outcome.facts["regions"]}
    assert rungs[1] == "dynamo" and rungs[2] == "decomp"


@pytest.mark.torch
def test_a_decomposition_can_be_left_out_by_name(prober: Prober, tmp_path: Path) -> None:
    probe = script(
        tmp_path,
        "import torch\n"
        "f = torch.compile(lambda x: torch.nn.functional.silu(x) + torch.nn.functional.gelu(x))\n"
        "f(torch.ones(3))\n",
    )
    applied = ask(prober, probe, Rung.DECOMP).facts["applied"]["decomposition"]
    assert "aten.silu.default#0" in applied and "aten.gelu.default#0" in applied
    outcome = ask(prober, probe, Rung.DECOMP, off={"decomposition": ["aten.silu.default#0"]})
    graph = (Path(outcome.folder) / "artifacts" / "aot_forward_0.py").read_text()
    assert "aten.silu" in graph and "aten.gelu" not in graph


WRONG_META = """
import torch

lib = torch.library.Library("acceltest", "DEF")
lib.define("flip(Tensor x) -> Tensor")


def real(x):
    return x.t().contiguous().t() * 1


lib.impl("flip", real, "CPU")


@torch.library.register_fake("acceltest::flip", lib=lib)
def fake(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


torch.compile(lambda x: torch.ops.acceltest.flip(x) + 1)(torch.arange(6.0).reshape(2, 3))
"""


@pytest.mark.torch
def test_the_meta_rung_names_an_operator_whose_fake_kernel_is_wrong(prober: Prober, tmp_path: Path) -> None:
    mismatches = ask(prober, script(tmp_path, WRONG_META), Rung.META).facts["meta_mismatches"]
    assert [(m["op"], m["what"]) for m in mismatches] == [("acceltest.flip.default", "stride")]


ENDLESS_META = """
import os
import torch

lib = torch.library.Library("acceltest", "DEF")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: x * 2, "CPU")


@torch.library.register_fake("acceltest::twice", lib=lib)
def fake(x):
    END


torch.compile(lambda x: torch.ops.acceltest.twice(x) + 1)(torch.ones(3))
"""


@pytest.mark.torch
@pytest.mark.parametrize("end", ["os.abort()", "raise SystemExit(3)"])
def test_the_meta_check_names_a_fake_kernel_in_which_the_run_ends(
    end: str, prober: Prober, tmp_path: Path
) -> None:
    """One that never returns is stopped by the time limit, which ends a run in one of these two ways."""
    probe = script(tmp_path, ENDLESS_META.replace("END", end))
    outcome = ask(prober, probe, Rung.UNCOMPILED, meta_eager=True)
    assert [m["op"] for m in outcome.facts["meta_mismatches"]] == ["acceltest.twice.default"]
    assert ask(prober, probe, Rung.DYNAMO, meta_fix=["acceltest.twice.default"]).status is Status.OK


HALF_PROMISED = """
import random
import torch

random.seed(1)
want = torch.ones(3) * random.uniform(1.0, 2.0)
random.seed(1)
got = torch.compile(lambda x: x * random.uniform(1.0, 2.0))(torch.ones(3))
print(torch.allclose(got, want), got.dtype)
"""


@pytest.mark.torch
@pytest.mark.parametrize("rung", [Rung.DYNAMO, Rung.DECOMP, Rung.KERNEL], ids=str)
def test_inputs_that_are_not_as_promised_are_noted_and_corrected(
    rung: Rung, prober: Prober, tmp_path: Path
) -> None:
    """Dynamo of 2.14.1 captures the number as float32 and hands over float64."""
    probe = script(tmp_path, HALF_PROMISED)
    seen = ask(prober, probe, rung).facts["graph_inputs"]
    told = [(one["what"], one["promised"], one["given"]) for one in seen]
    assert told in ([], [("dtype", "float32", "float64")])
    below = ask(prober, probe, Rung.DECOMP).facts["graph_inputs"]
    assert bool(told) == (bool(below) and rung is not Rung.KERNEL)
    corrected = ask(prober, probe, rung, correct_inputs=True)
    assert printed(corrected) == "True torch.float32\n"
    assert [one["name"] for one in corrected.facts["graph_inputs"]] == [one["name"] for one in below]


REFUSED = """
import torch

index, divisor = torch.tensor([7]), torch.zeros(3, dtype=torch.uint8)
for call in (
    lambda: torch.compile(lambda x: torch.arange(3.0).index_select(0, x))(index),
    lambda: torch.compile(lambda x: torch.ones(3, dtype=torch.uint8) % x)(divisor),
    lambda: torch.compile(torch.linalg.cholesky)(-torch.eye(2)),
):
    try:
        call()
    except Exception:
        print("refused")
"""


@pytest.mark.torch
def test_what_is_refused_for_its_values_is_no_mismatch(prober: Prober, tmp_path: Path) -> None:
    """No meta kernel sees values: an index out of range, a division by zero, a bad matrix."""
    outcome = ask(prober, script(tmp_path, REFUSED), Rung.META)
    assert printed(outcome) == "refused\n" * 3
    assert outcome.facts["meta_mismatches"] == []


@pytest.mark.torch
def test_a_correct_program_has_no_mismatch(prober: Prober, tmp_path: Path) -> None:
    probe = script(
        tmp_path,
        "import torch\n"
        "net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())\n"
        "torch.compile(net)(torch.randn(2, 3, 8, 8)).sum().backward()\n",
    )
    assert ask(prober, probe, Rung.META).facts["meta_mismatches"] == []


BEHAVES = """
import atexit, os, sys, threading, warnings
import torch
print("name", __name__, os.path.basename(__file__), sys.argv[1:], os.path.basename(sys.path[0]))
print("main", sys.modules["__main__"].__dict__ is globals())
print("stdin", repr(sys.stdin.read()))
print("files", sorted(os.listdir(".")))
open("new.txt", "w").write("x")
atexit.register(lambda: print("atexit ran"))
threading.Timer(0.3, lambda: print("thread ran")).start()
"""


@pytest.mark.torch
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_a_script_sees_what_python_would_show_it(torch_python: str, tmp_path: Path, cold: bool) -> None:
    user = tmp_path / "user"
    user.mkdir()
    (user / "data.txt").write_text("kept")
    path = user / "script.py"
    path.write_text(BEHAVES)
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", user), keep=True) as prober:
        if not cold:
            prober.warm_up()
        probe = Probe(program=Program(path=str(path), args=("--flag", "two words")), cold=cold)
        outcome = prober.ask(probe)
    lines = printed(outcome).splitlines()
    assert outcome.status is Status.OK, outcome.raised
    assert outcome.warm is not cold
    assert "name __main__ script.py ['--flag', 'two words'] user" in lines
    assert "main True" in lines
    assert "stdin ''" in lines
    assert "files ['data.txt', 'script.py']" in lines
    assert "thread ran" in lines and "atexit ran" in lines
    assert sorted(p.name for p in user.iterdir()) == ["data.txt", "script.py"]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import os; os._exit(0)", Status.OK),
        ("import os; os._exit(7)", Status.EXIT),
        ("import sys; sys.exit('no good')", Status.EXIT),
        ("raise KeyError('x')", Status.EXCEPTION),
        ("import ctypes; ctypes.string_at(0)", Status.SIGNAL),
        ("import os; os.abort()", Status.SIGNAL),
        ("import os; os.closerange(0, 50); raise ValueError('closed')", Status.EXCEPTION),
        ("import os, shutil; shutil.rmtree(os.getcwd()); raise ValueError('gone')", Status.EXCEPTION),
        (
            "import signal, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); raise OSError('x')",
            Status.EXCEPTION,
        ),
    ],
)
def test_every_end_is_an_outcome(prober: Prober, tmp_path: Path, text: str, status: Status) -> None:
    outcome = prober.ask(script(tmp_path, text))
    assert outcome.status is status
    assert prober.is_warm and outcome.warm


@pytest.mark.torch
def test_a_hang_is_a_timeout_that_says_where(prober: Prober, tmp_path: Path) -> None:
    from dataclasses import replace

    probe = script(tmp_path, "def stuck():\n    while True:\n        pass\nstuck()\n")
    outcome = prober.ask(replace(probe, limits=Limits(timeout_s=2.0)))
    assert outcome.status is Status.TIMEOUT
    assert outcome.raised is not None
    assert "stuck" in [frame.function for frame in outcome.raised.frames]


@pytest.mark.torch
def test_an_answer_is_never_asked_for_twice(torch_python: str, tmp_path: Path) -> None:
    probe = script(tmp_path, "print(1)")
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", tmp_path)) as one:
        first = one.ask(probe)
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", tmp_path)) as two:
        assert two.ask(probe).to_json() == first.to_json()
        assert two.asked == 0


@pytest.mark.torch
def test_a_mistake_of_the_lab_is_not_taken_for_the_programs_end(
    prober: Prober, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warm child finds no working directory: the lab's own failure, so the probe is asked again, cold."""
    plain, spoilt = prober.workspace.place, list[Place]()

    def place(probe: Probe) -> Place:
        made = plain(probe)
        if not spoilt:
            spoilt.append(made)
            return replace(made, cwd=made.folder / "gone")
        return made

    monkeypatch.setattr(prober.workspace, "place", place)
    outcome = prober.ask(script(tmp_path, "import torch\nprint('here')\n"))
    assert (outcome.status, outcome.warm) == (Status.OK, False)
    assert any("warm server failed: FileNotFoundError" in note for note in outcome.notes)
    assert printed(outcome) == "here\n"


def test_what_a_release_lacks_is_not_the_scripts_failure(prober: Prober, tmp_path: Path) -> None:
    """The child asks torch for what is not there, here because the script takes it away."""
    lacking = """
import torch
import torch.fx
del torch.fx.Interpreter
torch.compile(lambda x: x + 1)(torch.ones(3))
"""
    probe = script(tmp_path, lacking)
    outcome = prober.ask(replace(probe, rung=Rung.FX))
    assert outcome.status is Status.NOT_APPLICABLE
    assert any("lacks a part that the rung needs" in note for note in outcome.notes), outcome.notes


def test_what_a_release_asks_of_a_stand_in_is_not_the_scripts_failure(prober: Prober, tmp_path: Path) -> None:
    """Inductor asks the nodes of a scheduler that is not its own, here because the script makes it ask."""
    asking = """
import torch
import torch._inductor.graph as graph
codegen = graph.GraphLowering.codegen
def asked(self):
    made = codegen(self)
    return [node.of_another_release() for node in self.scheduler.nodes] and made
graph.GraphLowering.codegen = asked
torch.compile(lambda x: x + 1)(torch.ones(3))
"""
    outcome = prober.ask(replace(script(tmp_path, asking), rung=Rung.LOOPS))
    assert outcome.status is Status.NOT_APPLICABLE
    assert any("of_another_release" in note for note in outcome.notes), outcome.notes


CAUGHT_AT_THE_KERNEL = """
import torch
try:
    torch.compile(lambda x: x + 1)(torch.ones(3))
except BaseException:
    raise SystemExit(3)
print("compiled")
"""


@pytest.mark.torch
def test_a_run_can_end_where_the_native_compiler_would_start(prober: Prober, tmp_path: Path) -> None:
    """It ends at once, so that a script that catches everything cannot take it for the failure."""
    probe = script(tmp_path, CAUGHT_AT_THE_KERNEL)
    stopped = ask(prober, probe, Rung.KERNEL, before_compiler=True)
    assert stopped.status is Status.NOT_APPLICABLE
    assert "native compiler" in " ".join(stopped.notes)
    assert printed(stopped) == ""
    assert printed(ask(prober, probe, Rung.KERNEL)) == "compiled\n"


SHARED_CODE = """
import torch

def make(op):
    def fn(x, y):
        return op(x, y)

    return fn

x, y = torch.tensor(6.0), torch.tensor(3.0)
torch.compile(make(torch.Tensor.__add__))(x, y)
assert torch.compile(make(torch.Tensor.__mul__))(x, y) == 18
"""


@pytest.mark.torch
@pytest.mark.parametrize("rung", [Rung.DYNAMO, Rung.AOT, Rung.KERNEL], ids=str)
def test_a_graph_is_used_again_where_torch_would_use_it(prober: Prober, tmp_path: Path, rung: Rung) -> None:
    probe = script(tmp_path, SHARED_CODE)
    plain = prober.ask(replace(probe, bare=True))
    outcome = prober.ask(replace(probe, rung=rung))
    assert (outcome.raised is None) is (plain.exit_code == 0)


STATE_IN_A_CACHE = """
import torch

@torch.compile
def fn(t):
    return t + 1

fn(torch.ones(2))
torch._dynamo.reset()
fn(torch.ones(2))
assert not torch._dynamo.utils.counters["inductor"].get("fxgraph_cache_hit", 0)
"""


@pytest.mark.torch
def test_caches_answer_only_where_they_are_asked_for(prober: Prober, tmp_path: Path) -> None:
    probe = script(tmp_path, STATE_IN_A_CACHE)
    assert prober.ask(probe).status is Status.OK
    assert prober.ask(replace(probe, switches=(("caches", ["fx"]),))).status is Status.EXCEPTION


STRIDED = """
import torch

seen = []

@torch.library.custom_op("strided::seen", mutates_args=())
def look(t: torch.Tensor) -> torch.Tensor:
    seen.append(t.is_contiguous())
    return t.clone()

look.register_fake(torch.empty_like)
torch.compile(lambda t: look(t.t()) + 1)(torch.ones(2, 3))
assert seen == [False]
"""


@pytest.mark.torch
@pytest.mark.parametrize("rung", [Rung.DECOMP, Rung.FX], ids=str)
def test_operators_can_be_given_contiguous_copies(prober: Prober, tmp_path: Path, rung: Rung) -> None:
    probe = replace(script(tmp_path, STRIDED), rung=rung)
    assert prober.ask(probe).status is Status.OK
    assert prober.ask(replace(probe, switches=(("contiguous", True),))).status is Status.EXCEPTION


UNSEEDED = """
import random
import numpy, torch
from numpy.random import default_rng
print(random.random(), numpy.random.rand(), default_rng().random(), torch.rand(()).item())
print(default_rng(3).random())
"""


@pytest.mark.torch
def test_a_script_without_a_seed_draws_the_same_numbers_in_each_run(
    torch_python: str, tmp_path: Path
) -> None:
    """A repeat draws others, to see how often the script fails, until values are compared."""
    probe = script(tmp_path, UNSEEDED)
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", tmp_path)) as lab:
        lab.warm_up()
        warm = printed(lab.ask(probe))
        cold = printed(lab.ask(replace(probe, cold=True)))
        other = printed(lab.ask(probe.again(1)))
        lab.fixed_seed = True
        repeated = printed(lab.ask(probe.again(2)))
    assert warm == cold == repeated
    assert not set(other.splitlines()[0].split()) & set(warm.splitlines()[0].split())
    assert other.splitlines()[1] == warm.splitlines()[1]


STARTS_OTHERS = """
import multiprocessing, subprocess, sys
import torch

def double(x):
    return x * 2

def work(number):
    return torch.compile(double, backend="eager")(torch.tensor(number)).item()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
    code = "import torch; print(torch.compile(lambda x: x + 1, backend='eager')(torch.tensor(3)).item())"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
"""


@pytest.mark.torch
@pytest.mark.slow
def test_the_rung_reaches_the_processes_that_a_script_starts(prober: Prober, tmp_path: Path) -> None:
    probe = script(tmp_path, STARTS_OTHERS)
    outcome = ask(prober, probe, Rung.UNCOMPILED, other_processes=True)
    assert outcome.status is Status.OK, (Path(outcome.folder) / "stderr.txt").read_text()
    assert printed(outcome).split() == ["[2,", "4]", "4"]
    assert "sitecustomize" not in (Path(outcome.folder) / "stderr.txt").read_text()
    regions = outcome.facts["regions"]
    assert regions and {(region["rung"], region["calls"]) for region in regions} == {("uncompiled", 1)}
    seen = Path(outcome.folder) / "processes"
    results = [json.loads(path.read_text()) for path in seen.glob("*/result.json")]
    names = {region["name"] for result in results for region in result["facts"].get("regions", [])}
    assert names == {"double", "<lambda>"}
    assert ask(prober, probe, Rung.UNCOMPILED).facts.get("regions", []) == []


@pytest.mark.torch
@pytest.mark.parametrize("cold", [False, True])
def test_a_switch_that_the_child_does_not_know_is_refused(prober: Prober, tmp_path: Path, cold: bool) -> None:
    probe = replace(script(tmp_path, "raise SystemExit(3)"), cold=cold)
    for switches, says in (
        ({"fusions": False}, "unknown switch fusions"),
        ({"fresh": 1}, "switch fresh takes true or false"),
        ({"together": True}, "rung kernel does not support switch together"),
    ):
        outcome = ask(prober, probe, Rung.KERNEL, **switches)
        assert outcome.status is Status.NOT_APPLICABLE and outcome.notes == (says,)


@pytest.mark.torch
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_a_hook_for_exceptions_may_choose_the_exit_code(
    torch_python: str, tmp_path: Path, cold: bool
) -> None:
    text = (
        "import sys\n\ndef hook(*error):\n    sys.exit(3)\n\nsys.excepthook = hook\nraise ValueError('x')\n"
    )
    probe = replace(script(tmp_path, text), cold=cold)
    with Prober(python=torch_python, workspace=Workspace(tmp_path / "run", tmp_path)) as prober:
        if not cold:
            prober.warm_up()
        outcome = ask(prober, probe, Rung.UNCOMPILED)
    assert (outcome.exit_code, outcome.warm, outcome.notes) == (3, not cold, ())
    assert outcome.raised is not None and outcome.raised.type == "SystemExit"


NO_WRITING = """
import builtins
import torch

real = builtins.open


def guarded(path, mode="r", *rest, **more):
    if "w" in mode:
        raise PermissionError("this job writes nothing")
    return real(path, mode, *rest, **more)


builtins.open = guarded
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
"""


@pytest.mark.torch
def test_a_script_may_replace_open_for_its_process(prober: Prober, tmp_path: Path) -> None:
    outcome = ask(prober, script(tmp_path, NO_WRITING), Rung.DYNAMO)
    assert outcome.status is Status.OK, outcome.raised
    assert [region["calls"] for region in outcome.facts["regions"]] == [1]


def test_processes_that_the_script_forks_may_write_one_file_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "regions.json")

    def write_often() -> None:
        for number in range(300):
            write_json(path, [number] * 50)

    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write_often) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert json.loads(Path(path).read_text()) == [299] * 50
    assert [file.name for file in tmp_path.iterdir()] == ["regions.json"]

"""Planning and judging of measurements, on fakes; the models and the worker themselves on a real torch."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_lab.core.benchmark import Reply, RowStatus, Spread
from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.probe import Limits
from accel_lab.execution.processes.isolated import Isolated
from accel_lab.workloads import backends, measure, registry
from fakes_bench import FACTS, RICH, WRONG, asker, benchmark

SOURCE = Path(__file__).resolve().parents[2] / "bisect"
ROW = FACTS["distances"][0]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_a_spread_keeps_its_order_and_knows_its_ends(samples: list[float]) -> None:
    spread = Spread.of(samples)
    assert spread is not None
    assert (spread.low, spread.high, spread.count) == (min(samples), max(samples), len(samples))
    assert spread.low <= spread.q1 <= spread.median <= spread.q3 <= spread.high
    assert spread.iqr == spread.q3 - spread.q1
    assert Spread.of(sorted(samples, reverse=True)) == spread


def test_quartiles_are_those_of_the_textbook() -> None:
    spread = Spread.of([4.0, 1.0, 3.0, 2.0, 5.0])
    assert spread is not None and (spread.q1, spread.median, spread.q3) == (2.0, 3.0, 4.0)
    assert Spread.of([]) is None


def test_models_and_backends_are_chosen_by_name() -> None:
    assert [m.name for m in registry.choose_models(("ssm", "bert"), False)] == ["bert", "ssm"]
    assert [m.name for m in registry.choose_models((), True)] == list(registry.MODELS)
    with pytest.raises(UsageError, match="--all"):
        registry.choose_models((), False)
    names = [b.name for b in registry.choose_backends((), ("toy", "mock"))]
    assert names == [*registry.BACKENDS, "toy"]
    chosen = registry.choose_backends(("toy", "eager", "toy"), ("toy",))
    assert [(b.name, b.adapter) for b in chosen] == [("toy", True), ("eager", False)]
    with pytest.raises(UsageError, match="toy"):
        registry.choose_backends(("warp",), ("toy",))


def test_the_multilingual_model_has_a_base_size_of_its_own() -> None:
    job = measure.job_of(registry.MODELS["bert-multilingual"], registry.BACKENDS["aot"], measure.Settings())
    assert (job["size"], job["warmup"]) == ("multilingual", 2)
    small = measure.Settings(size="small", warmup=0)
    job = measure.job_of(registry.MODELS["bert-multilingual"], registry.BACKENDS["aot"], small)
    assert (job["size"], job["warmup"]) == ("small", 0)
    assert measure.job_of(registry.MODELS["unet"], registry.BACKENDS["aot"], small)["size"] == "small"


def test_violations_are_told_with_their_lines() -> None:
    breach = {"constraint": "dtype", "op": "to", "message": "float64 is no dtype", "source": "/m.py:7"}
    told = backends.statistics(lambda: {"violations": [breach, breach, {"name": "layout"}]})
    assert told["violations"] == {"dtype": 2, "layout": 1}
    assert told["violation_lines"] == ["dtype: to: float64 is no dtype at /m.py:7"]
    many = [{**breach, "message": f"no {n}"} for n in range(500)]
    assert len(backends.statistics(lambda: {"violations": many})["violation_lines"]) == backends.MOST_LINES
    assert "violation_lines" not in backends.statistics(lambda: {"violations": {"dtype": 2}})


def test_a_row_is_made_of_what_the_worker_tells() -> None:
    found = {(row.model, row.backend): row for row in benchmark().rows}
    assert found["resnet18", ""].standing is RowStatus.SKIPPED
    assert "pip install torchvision" in found["resnet18", ""].reason
    dynamo = found["bert", "dynamo"]
    assert dynamo.standing is RowStatus.OK and dynamo.graphs == 1
    assert dynamo.ratio_to_eager == pytest.approx(2.1) and dynamo.peak_mb == 50.0
    assert dynamo.compile_s == pytest.approx(2.02 - 0.021)
    assert found["bert", "eager"].graphs is None and found["bert", "eager"].ratio_to_eager is None
    assert found["bert", "aot"].standing is RowStatus.DIFFERS
    assert found["ssm", "mock"].standing is RowStatus.SKIPPED
    late = found["ssm", "inductor"]
    assert late.standing is RowStatus.FAILED and late.reason == "timed out after 9 s (in: first call)"
    assert late.latency_ms is None and late.ratio_to_eager is None and late.compile_s is None


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(facts={}), "the worker ended early (in: start)"),
        (
            Reply(facts={"part": "import"}, stderr_line="Illegal instruction"),
            "Illegal instruction (in: import)",
        ),
        (Reply(facts={"part": "warm-up"}, ended="ended by signal 11"), "ended by signal 11 (in: warm-up)"),
        (
            Reply(
                facts={
                    "part": "first call",
                    "error": {"type": "KeyError", "message": "'x'", "unavailable": False},
                }
            ),
            "KeyError: 'x' (in: first call)",
        ),
    ],
)
def test_a_worker_that_does_not_come_back_is_a_failed_row(reply: Reply, says: str) -> None:
    row = measure.row_of(registry.MODELS["ssm"], registry.BACKENDS["aot"], reply)
    assert row.standing is RowStatus.FAILED and says in row.reason
    json.dumps(row.to_json())


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False),
        ({"to_eager": 0.0, "to_float64": 5.0, "eager_to_float64": 5.0}, False),  # as wrong as eager is
        ({"to_eager": 1.0, "to_float64": 1e-9, "eager_to_float64": 1.0}, False),  # nearer than eager
        ({"to_eager": 1e-3, "to_float64": 1e-3}, True),
        ({"to_eager": 6e-7, "to_float64": 6e-7}, False),  # reordered sums
        # A gradient whose true value is zero: noise against noise.
        ({"to_eager": 5e-9, "to_float64": 5e-9, "eager_to_float64": 1e-9, "magnitude": 1e-17}, False),
        ({"to_eager": 1e-2, "to_float64": 1e-2, "eager_to_float64": 1e-9, "magnitude": 1e-17}, True),
        ({"to_eager": math.inf, "to_float64": math.inf}, True),
        ({"dtype": "float16", "to_eager": 2e-3, "to_float64": 2e-3, "eager_to_float64": 1e-3}, False),
        ({"dtype": "float16", "to_eager": 0.1, "to_float64": 0.1, "eager_to_float64": 1e-3}, True),
        ({"dtype": "int64", "to_eager": 1.0}, True),
        ({"dtype": "int64", "to_eager": 0.0}, False),
        ({"to_float64": None, "eager_to_float64": None, "to_eager": 1e-6}, False),
        ({"to_float64": None, "eager_to_float64": None, "to_eager": 1e-2}, True),
        # Eager overflowed, the compiled run did not: near the reference is what counts.
        ({"to_eager": math.inf, "to_float64": 1e-7, "eager_to_float64": math.inf}, False),
        ({"reason": "shape (2,) instead of (3,)"}, True),
    ],
)
def test_what_is_too_far_from_float64_differs(change: dict[str, Any], differs: bool) -> None:
    distance = measure.distance_of([{**ROW, **change}])
    assert distance is not None
    assert bool(distance.differing) is differs


def test_the_worst_tensor_is_named_first() -> None:
    rows = [
        ROW,
        {**WRONG, "name": "a", "to_float64": 0.01},
        {**WRONG, "name": "b"},
        {**ROW, "reason": "missing"},
    ]
    distance = measure.distance_of(rows)
    assert distance is not None and distance.tensors == 4
    assert [line.split(":")[0] for line in distance.differing] == ["output", "b", "a"]
    assert distance.to_eager == 0.5 and distance.eager_to_float64 == 2.5e-7
    assert measure.distance_of([]) is None


def test_a_description_that_fails_is_handed_back() -> None:
    told = measure.describe(asker({}), "cpu")
    assert isinstance(told, measure.Described) and told.adapters == ("toy",) and told.device_ready
    broken = measure.describe(asker({"describe": {"error": {"message": "no"}}}), "cpu")
    assert isinstance(broken, Reply)


class Counted:
    """Statistics as an object, in the form of the mock's."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kernels_generated": 3,
            "fallbacks": {"aten.sort.default": {"count": 2, "reason": "no such unit"}},
            "violations": [
                {"constraint": "dtype", "graph": "g"},
                {"name": "span"},
                {"constraint": "dtype"},
                {},
            ],
            "seconds": {"kernels": 0.5},
        }


@pytest.mark.parametrize(
    ("teller", "told"),
    [
        (None, {}),
        (lambda: None, {}),
        (dict, {}),
        (
            Counted,
            {
                "kernels": 3,
                "fallbacks": {"aten.sort.default": 2},
                "violations": {"dtype": 2, "span": 1, "unnamed": 1},
                "seconds": {"kernels": 0.5},
            },
        ),
        (
            lambda: {"fallbacks": {}, "violations": {"dtype": 4}},
            {"fallbacks": {}, "violations": {"dtype": 4}},
        ),
    ],
)
def test_statistics_are_read_in_the_forms_that_backends_keep_them(teller: Any, told: dict[str, Any]) -> None:
    assert backends.statistics(teller) == told


# ---- the process around the worker


def isolated(tmp_path: Path, **changes: Any) -> Isolated:
    limits = replace(Limits(timeout_s=60.0), **changes)
    return Isolated(python=sys.executable, folder=tmp_path / "rows", module=measure.WORKER, limits=limits)


def test_the_worker_needs_no_lab_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    site = tmp_path / "site" / "toy-1.0.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (site / "entry_points.txt").write_text("[accel_lab.adapters]\ntoy = toy:Toy\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    worker = isolated(tmp_path)
    told = measure.describe(worker.ask, "cpu")
    assert isinstance(told, measure.Described)
    assert "toy" in told.adapters
    assert sorted(p.name for p in (tmp_path / "rows" / "describe").iterdir()) == [
        "answer.json",
        "job.json",
        "stderr.txt",
        "stdout.txt",
    ]
    worker.tidy()
    assert not (tmp_path / "rows" / "lib").exists()


def test_what_the_worker_raises_and_how_it_ends_come_back(tmp_path: Path) -> None:
    worker = isolated(tmp_path)
    reply = worker.ask("x", {"ask": "measure"})  # a job without a model
    assert reply.facts["error"]["type"] in ("KeyError", "ModuleNotFoundError")
    assert reply.facts["part"] == "import" and reply.ended == ""
    slow = Isolated(
        python=sys.executable, folder=tmp_path / "slow", module="this", limits=Limits(timeout_s=60.0)
    ).ask("x", {})
    assert slow.facts == {}


def test_a_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("a file")
    with pytest.raises(LabError, match="cannot copy the lab"):
        isolated(tmp_path)


# ---- with torch


def in_torch(python: str, program: str) -> Any:
    """What a program prints as JSON, run by an interpreter with torch."""
    done = subprocess.run(
        [python, "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.torch
def test_the_scan_is_the_recurrence_and_looks_at_no_later_token(torch_python: str) -> None:
    found = in_torch(
        torch_python,
        """
import json, torch
from accel_lab.workloads import ssm
torch.manual_seed(0)
worst = 0.0
for length in (1, 2, 3, 7, 8, 33):
    gate, step = torch.rand(2, length, 3, dtype=torch.double), torch.randn(2, length, 3, dtype=torch.double)
    state, want = torch.zeros(2, 3, dtype=torch.double), []
    for t in range(length):
        state = gate[:, t] * state + step[:, t]
        want.append(state)
    worst = max(worst, float((ssm.scan(gate, step) - torch.stack(want, 1)).abs().max()))
model = ssm.make("small").double()
(ids,), _ = ssm.batch("small", torch.Generator().manual_seed(0))
one = model(ids)
ids[:, 9] = (ids[:, 9] + 1) % 128
two = model(ids)
early, late = float((one - two)[:, :9].abs().max()), float((one - two)[:, 9:].abs().min(-1).values.max())
base = sum(p.numel() for p in ssm.make("base").parameters())
print(json.dumps([worst, early, late, base]))
""",
    )
    worst, early, late, parameters = found
    assert worst < 1e-12
    assert early == 0.0 and late > 0.0
    assert 25e6 < parameters < 29e6


@pytest.mark.torch
def test_a_step_over_the_cache_is_the_whole_sequence_at_once(torch_python: str) -> None:
    apart, unseen, parameters, image = in_torch(
        torch_python,
        """
import json, torch
from accel_lab.workloads import decoder, unet
torch.manual_seed(0)
model = decoder.make("small").double()
count, context, words, width, layers, heads = decoder.SIZES["small"]
empty = torch.zeros(layers, count, heads, context, width // heads, dtype=torch.double)
ids = torch.randint(0, words, (count, 5))
whole, _, _ = model(ids, torch.arange(5), empty, empty)
keys, values, steps = empty, empty, []
for place in range(5):
    logits, keys, values = model(ids[:, place : place + 1], torch.tensor([place]), keys, values)
    steps.append(logits)
apart = float((torch.cat(steps, 1) - whole).abs().max())
later = keys.clone()
later[:, :, :, 9:] += 1.0  # places after the token
one, _, _ = model(ids[:, :1], torch.tensor([6]), keys, values)
two, _, _ = model(ids[:, :1], torch.tensor([6]), later, values)
sizes = [sum(p.numel() for p in module.make("base").parameters()) for module in (decoder, unet)]
made = unet.make("small")
(noise, step), want = unet.batch("small", torch.Generator().manual_seed(0))
fits = made(noise, step).shape == want.shape
print(json.dumps([apart, float((one - two).abs().max()), sizes, fits]))
""",
    )
    assert apart < 1e-12 and unseen == 0.0 and image
    assert 40e6 < parameters[0] < 48e6 and 2e6 < parameters[1] < 4e6


@pytest.mark.torch
def test_distances_see_what_numbers_hide(torch_python: str) -> None:
    rows = in_torch(
        torch_python,
        """
import json, torch
from accel_lab.workloads import distances
nan, inf = float("nan"), float("inf")
want = {"same": torch.tensor([nan, inf, 1.0]), "lost": torch.tensor([1.0, 2.0]), "gone": torch.ones(1),
        "kind": torch.ones(2), "form": torch.ones(2), "none": torch.ones(0), "whole": torch.tensor([3])}
got = {"same": torch.tensor([nan, inf, 1.5]), "lost": torch.tensor([1.0, nan]), "new": torch.ones(1),
       "kind": torch.ones(2).half(), "form": torch.ones(2, 1), "none": torch.ones(0),
       "whole": torch.tensor([5])}
reference = {name: value.double() for name, value in want.items()}
rows = {row["name"]: row for row in distances.rows(got, want, reference)}
one = torch.ones(1)
nested = list(dict(distances.named_tensors({"a": one, "b": [one, (None, one)]})))
print(json.dumps([rows, nested]))
""",
    )
    rows, nested = rows
    assert rows["same"]["to_eager"] == 0.5 and rows["same"]["magnitude"] == 1.0
    assert rows["lost"]["to_eager"] == math.inf
    assert (rows["gone"]["reason"], rows["new"]["reason"]) == ("missing", "extra")
    assert "dtype" in rows["kind"]["reason"] and "shape" in rows["form"]["reason"]
    assert rows["none"]["to_eager"] == 0.0 and rows["whole"]["to_eager"] == 2.0
    assert nested == ["output.a", "output.b.0", "output.b.1.1"]


@pytest.mark.torch
def test_on_cuda_events_time_the_call_and_nothing_is_in_flight(torch_python: str) -> None:
    """The order of what is asked of torch.cuda, by a stand-in: the tests need no GPU."""
    steps, ms, peak = in_torch(
        torch_python,
        """
import json, torch
from accel_lab.workloads import meters
steps = []
class Event:
    def __init__(self, enable_timing): assert enable_timing
    def record(self): steps.append("record")
    def elapsed_time(self, other): return 7.5
torch.cuda.Event = Event
torch.cuda.synchronize = lambda: steps.append("wait")
torch.cuda.reset_peak_memory_stats = lambda: steps.append("reset")
torch.cuda.max_memory_allocated = lambda: 3 << 20
clock, memory = meters.Clock("cuda"), meters.Memory("cuda")
ms = clock.milliseconds(lambda: steps.append("call"))
steps.append("|")
clock.seconds(lambda: steps.append("call"))
memory.reset()
print(json.dumps([steps, ms, memory.peak_mb()]))
""",
    )
    assert steps == ["wait", "record", "call", "record", "wait", "|", "wait", "call", "wait", "reset"]
    assert (ms, peak) == (7.5, 3.0)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, model in registry.MODELS.items() if model.base == "base"])
def test_a_training_step_of_every_small_model(torch_python: str, tmp_path: Path, name: str) -> None:
    model = registry.MODELS[name]
    for need in model.needs:
        found = subprocess.run([torch_python, "-c", f"import {need}"], capture_output=True)
        if found.returncode:
            pytest.skip(f"{torch_python} has no {need}")
    settings = measure.Settings(size="small", runs=3, train=True)
    worker = Isolated(
        python=torch_python, folder=tmp_path / "rows", module=measure.WORKER, limits=Limits(timeout_s=600.0)
    )
    backend = registry.BACKENDS["aot"]
    reply = worker.ask("x", measure.job_of(model, backend, settings))
    row = measure.row_of(model, backend, reply)
    assert row.standing is RowStatus.OK, (row.reason, reply.facts.get("error"))
    names = [distance["name"] for distance in reply.facts["distances"]]
    assert "loss" in names and sum(n.startswith("gradient of ") for n in names) > 10
    assert row.graphs == 1 and row.graph_breaks == {}
    assert len(row.samples_ms) == len(row.eager_samples_ms) == 3


@pytest.mark.torch
@pytest.mark.slow
def test_a_wrong_backend_differs_and_a_broken_one_fails(torch_python: str, tmp_path: Path) -> None:
    """A backend of our own, found as `module:attribute`: once it returns other numbers, once it raises."""
    (tmp_path / "wrong.py").write_text(
        """
def off(gm, inputs):
    return lambda *args: tuple(x * 1.01 for x in gm.forward(*args))


def breaks(gm, inputs):
    raise NotImplementedError("no such unit")
"""
    )
    model, settings = registry.MODELS["ssm"], measure.Settings(size="small", runs=3)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    worker = Isolated(
        python=torch_python,
        folder=tmp_path / "rows",
        module=measure.WORKER,
        limits=Limits(timeout_s=600.0),
        env=env,
    )
    rows = {}
    for target in ("wrong:off", "wrong:breaks", "absent:backend"):
        backend = registry.Backend(name="x", title="", target=target)
        rows[target] = measure.row_of(
            model, backend, worker.ask("x", measure.job_of(model, backend, settings))
        )
    assert rows["wrong:off"].standing is RowStatus.DIFFERS
    assert rows["wrong:off"].distance is not None and rows["wrong:off"].distance.to_eager > 1e-3
    assert rows["wrong:breaks"].standing is RowStatus.FAILED
    assert "no such unit" in rows["wrong:breaks"].reason and "(in: first call)" in rows["wrong:breaks"].reason
    assert rows["absent:backend"].standing is RowStatus.SKIPPED


def test_rich_answers_are_of_questions_that_exist() -> None:
    names = {f"{model}-{backend}" for model in registry.MODELS for backend in registry.BACKENDS}
    assert set(RICH) <= names

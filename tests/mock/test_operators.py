"""The operator benchmark on a few operators: what it counts, and the mock on torch's own samples."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import operator_samples  # noqa: E402
from accel_lab.mock import faults  # noqa: E402
from accel_lab.mock.settings import read_settings  # noqa: E402
from operator_cases import CASES  # noqa: E402
from operator_run import EagerFails, Sample, _difference, run  # noqa: E402
from operator_table import Cell, Known, Report  # noqa: E402
from operator_work import cell  # noqa: E402
from operators import chosen, kept, main  # noqa: E402

pytestmark = pytest.mark.torch
OF_OP_DB = ("add", "nn.functional.conv2d", "softmax", "argmax", "index_add", "cumsum")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(faults.VARIABLE, raising=False)


@pytest.fixture(scope="module")
def op_db() -> dict[str, Any]:
    found = operator_samples.op_db()
    if not found:
        pytest.skip("this build of torch ships no op_db")
    return found


def task(name: str, dtype: str = "float32", *, backward: bool = False) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "backward": backward, "limit": 3, "speed": False}


@pytest.mark.parametrize("name", OF_OP_DB)
def test_torchs_samples_run_on_the_device(name: str, op_db: dict[str, Any]) -> None:
    found = Cell.from_json({**task(name), **cell(op_db, task(name))})
    assert found.native and not found.bad, found.failures
    assert found.good == 3


@pytest.mark.parametrize(
    "name", ["softmax", "mm", "as_strided", "index_put", "sort", "casts", "slice_scatter"]
)
def test_the_grid_runs_on_the_device(name: str) -> None:
    asked = {**task("grid." + name), "limit": 5}
    found = Cell.from_json({**asked, **cell({}, asked)})
    assert found.native and not found.bad, found.failures


def test_gradients_are_compared_too(op_db: dict[str, Any]) -> None:
    found = cell(op_db, task("nn.functional.gelu", backward=True))
    assert found["counts"] == {"right": 3}
    assert not cell(op_db, task("argmax", backward=True))["counts"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("causal", "masked"), [(False, False), (True, False), (False, True)])
def test_attention_in_a_training_step(dtype: torch.dtype, causal: bool, masked: bool) -> None:
    """The backward takes the forward's logsumexp: torch's decomposition gives the weights in its place."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 9, 3, 16, dtype=dtype).transpose(1, 2) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention

    def function(q: Any, k: Any, v: Any) -> Any:
        mask = torch.ones(9, 9, dtype=torch.bool).tril(3) if masked else None
        return attention(q, k, v, is_causal=causal, attn_mask=mask)

    answer = run(Sample(function, (q, k, v), {}, backward=True))
    assert answer.outcome == "right", answer.detail
    assert not answer.host


def test_a_fault_makes_wrong_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(faults.VARIABLE, "tail_stick_dropped")
    answer = run(Sample(lambda x: x + 1, (torch.randn(3, 65),), {}, backward=False))
    assert answer.outcome == "wrong" and answer.detail


def test_what_ran_where_is_read_off_the_graph() -> None:
    def function(x: Any) -> Any:
        return torch.special.i0(x) * 2

    answer = run(Sample(function, (torch.randn(3, 5),), {}, backward=False))
    assert answer.outcome == "right" and answer.where == "mixed"
    assert answer.native == ["aten.mul.Tensor"] and list(answer.host) == ["aten.i0.default"]


@pytest.mark.parametrize("front", ["main", "reference"])
def test_sparse_tensors_stay_on_the_host(front: str) -> None:
    def function(x: Any) -> Any:
        return x.to_sparse(), (x.to_sparse() * 2).to_dense() + x, torch.mm(x.to_sparse(), x + 1)

    settings = read_settings(given={"front_end": front})
    answer = run(Sample(function, (torch.eye(5),), {}, backward=False), settings)
    assert answer.outcome == "right", answer.detail
    assert "sparse_coo" in answer.host["aten.mm.default"]
    assert answer.native == ["aten.add.Tensor"]


@pytest.mark.parametrize("front", ["main", "reference"])
def test_a_result_of_the_host_that_nobody_reads_is_not_sent(front: str) -> None:
    """torch's meta kernel promises offsets of the size of the indices, the real kernel gives none."""

    def function(weight: Any, scale: Any) -> Any:
        indices, offsets = torch.arange(5), torch.tensor([0, 3])
        bag = torch.nn.functional.embedding_bag(
            indices, weight, offsets, mode="sum", per_sample_weights=scale
        )
        return bag + 1

    settings = read_settings(given={"front_end": front})
    weight, scale = torch.randn(10, 5).bfloat16(), torch.rand(5).bfloat16()
    answer = run(Sample(function, (weight, scale), {}, backward=False), settings)
    assert answer.outcome == "right" and answer.host, answer.detail
    assert "aten.add.Tensor" in answer.native


@pytest.mark.parametrize("front", ["main", "reference"])
def test_constants_that_the_device_cannot_hold_stay_on_the_host(front: str) -> None:
    def function(x: Any) -> Any:
        return x + torch.tensor(2.5, dtype=torch.float64), x * torch.tensor(3), torch.tensor([1j, 2])

    settings = read_settings(given={"front_end": front})
    answer = run(Sample(function, (torch.randn(3, 65),), {}, backward=False), settings)
    assert answer.outcome == "right", answer.detail
    assert "float64" in answer.host["aten.add.Tensor"]
    assert "aten.mul.Tensor" in answer.native


@pytest.mark.parametrize("rows", [5, 129])
def test_the_place_of_an_extreme_among_bools(rows: int) -> None:
    answer = run(Sample(lambda x: (*x.max(0), *x.min(-1)), (torch.randn(rows, 65) > 1,), {}, backward=False))
    assert answer.outcome == "right" and not answer.host, answer
    zeros = torch.tensor([[2.0, 0, 3], [1, 2, 3], [0, 4, 0]])
    answer = run(Sample(lambda x: x.cumprod(0), (zeros,), {}, backward=True))
    assert answer.outcome == "right", answer.detail


@pytest.mark.parametrize("front", ["main", "reference"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_product_and_its_bias_are_rounded_once(dtype: torch.dtype, front: str) -> None:
    """4097 is no number of either half format, 4097 - 4096 is; rounded before, the sum is not 1."""
    left, right = torch.tensor([[64.0, 1.0]], dtype=dtype), torch.tensor([[64.0], [1.0]], dtype=dtype)
    bias = torch.tensor([-4096.0], dtype=dtype)

    def function(b: Any, x: Any, y: Any) -> Any:
        return torch.addmm(b, x, y), torch.addmm(b, x, y, alpha=0.5, beta=0.5), torch.addmm(b, x, y, beta=0)

    settings = read_settings(given={"front_end": front})
    answer = run(Sample(function, (bias, left, right), {}, backward=False), settings)
    assert answer.outcome == "right" and not answer.host, answer.detail


def test_only_an_unstable_sort_may_order_ties_as_it_likes() -> None:
    many = (torch.arange(8000) % 7).bfloat16()
    for function in (torch.argsort, lambda x: torch.sort(x, descending=True), torch.sort):
        answer = run(Sample(function, (many,), {}, backward=False))
        assert answer.outcome == "right" and not answer.host, answer.detail
    one, two = torch.tensor([0, 1, 2]), torch.tensor([1, 0, 2])
    ties, order = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([1.0, 1.5, 2.0])
    for values, kwargs, same in ((ties, {}, True), (ties, {"stable": True}, False), (order, {}, False)):
        sample = Sample(torch.argsort, (values,), kwargs, backward=False)
        assert (not _difference([one], [two], sample)) is same
    # the same values at another place are not a sort of them all
    sample = Sample(torch.argsort, (ties,), {}, backward=False)
    assert _difference([torch.tensor([0, 0, 2])], [one], sample)


def test_what_eager_refuses_is_no_result() -> None:
    with pytest.raises(EagerFails):
        run(Sample(torch.mm, (torch.randn(3, 5), torch.randn(3, 5)), {}, backward=False))


def test_samples_keep_strides_and_offsets() -> None:
    x = torch.randn(7, 9)[1:4, ::2]
    copied = Sample(torch.neg, (x,), {}, backward=False).tensors()[0]
    assert (copied.stride(), copied.storage_offset()) == (x.stride(), x.storage_offset())
    assert copied.data_ptr() != x.data_ptr() and torch.equal(copied, x)
    for layout, strides in (("transposed", (1, 3)), ("expanded", (0, 1)), ("offset", (16, 1))):
        assert operator_samples.laid_out((3, 5), torch.float32, layout).stride() == strides


def test_the_report_counts_and_explains(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"sample": "s", "outcome": "wrong", "detail": "1 of 2 differ"}
    cells = [
        Cell(name="a", dtype="float32", backward=False, counts={"right": 3}, native={"aten.a.default": 3}),
        Cell(
            name="b",
            dtype="float16",
            backward=False,
            counts={"right": 1, "wrong": 1, "untraced": 2},
            native={"aten.b.default": 2},
            failures=[wrong],
        ),
        Cell(name="c", dtype="float32", backward=False, counts={"right": 5}, host={"aten.c.default": "none"}),
    ]
    report = Report(settings={}, about={"torch": "2", "native": ["aten.a", "aten.z"]}, cells=cells)
    total = report.to_json()["totals"]["op_db, native"]
    assert (total["operators"], total["samples"], total["pass_rate"]) == (2, 5, 0.8)
    assert report.not_reached() == ["aten.z"]
    assert [cell.name for cell, _ in report.unexplained()] == ["b"]
    assert "1 of 2 differ" in report.text(full=False)
    known = Known(operators="b", dtypes="float16", outcome="wrong", detail="differ", reason="broken ties")
    monkeypatch.setattr("operator_table.KNOWN", (known,))
    assert not report.unexplained() and "broken ties" in report.text(full=True)
    told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert [cell.name for cell in kept(told)] == ["a", "c"]


def test_operators_are_chosen_by_name() -> None:
    names = ["add", "linalg.norm", "linalg.svd", "grid.mm"]
    assert chosen([], names, speed=False) == names
    assert chosen(["linalg"], names, speed=False) == ["linalg.norm", "linalg.svd"]
    assert chosen(["op_db", "grid.mm"], names, speed=False) == names
    assert chosen([], names, speed=True) == ["grid.mm"]
    with pytest.raises(SystemExit):
        chosen(["nothing"], names, speed=False)


def test_what_a_stopped_run_did_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Stopped:
        def __init__(self, **_: Any) -> None:
            self.about = {"names": ["a", "b"], "torch": "2"}

        def __enter__(self) -> Stopped:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def work(self, tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
            yield from ({**asked, "counts": {"right": 1}} for asked in tasks[:2])
            raise SystemExit(143)

    monkeypatch.setattr("operators.Fleet", Stopped)
    monkeypatch.setattr("operators.signal.signal", lambda *_: None)
    told = tmp_path / "told.json"
    with pytest.raises(SystemExit):
        main(["--json", str(told), "--dtypes", "float32", "int64"])
    found = json.loads(told.read_text("utf-8"))
    assert [(cell["name"], cell["dtype"]) for cell in found["cells"]] == [("a", "float32"), ("a", "int64")]


def test_every_case_of_the_grid_is_a_function_of_one_tensor() -> None:
    for name, case in CASES.items():
        results = case.function(operator_samples.laid_out((3, 65), getattr(torch, case.dtypes[0]), "offset"))
        assert any(isinstance(leaf, torch.Tensor) for leaf in torch.utils._pytree.tree_leaves(results)), name

"""torch.compile with the mock: all four combinations of front end and back end against eager."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import accel_lab  # noqa: E402
from accel_lab.accelerators.constraints.catalogue import UnsupportedOnDevice  # noqa: E402
from accel_lab.accelerators.settings import SettingError  # noqa: E402
from accel_lab.mock import adapter, backend  # noqa: E402
from accel_lab.mock.backend import aot_mock_backend, mock_backend  # noqa: E402
from accel_lab.mock.device import Device  # noqa: E402
from accel_lab.mock.runtime import run_statistics  # noqa: E402

SIDES = [(front, back) for front in ("main", "reference") for back in ("main", "reference")]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No compiled code, counters or settings of another test."""
    for name in [name for name in os.environ if name.startswith("MOCK_")]:
        monkeypatch.delenv(name)
    torch._dynamo.reset()
    run_statistics.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class Net(torch.nn.Module):  # type: ignore[misc]
    """A convolution with batch norm, an attention and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 6, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(6)
        self.mix = torch.nn.Linear(6, 18)
        self.last = torch.nn.LayerNorm(6)
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.conv(x))).flatten(2).transpose(1, 2)
        q, k, v = self.mix(x).chunk(3, -1)
        mask = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).tril()
        weights = (q @ k.transpose(1, 2)).masked_fill(~mask, float("-inf")).softmax(-1)
        return self.drop(self.last(weights @ v + x)).mean(1)


def close(got: Any, expected: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("front", "back"), SIDES)
def test_a_net_in_inference(front: str, back: str) -> None:
    net, x = Net().eval(), torch.randn(3, 2, 5, 7)
    compiled = torch.compile(net, backend=aot_mock_backend(front_end=front, back_end=back))
    with torch.no_grad():
        close(compiled(x), net(x))
        close(compiled(x * 2), net(x * 2))
    counted = run_statistics.collected().to_json()
    assert counted["kernels"] > 0
    assert counted["fallbacks"] == {}


@pytest.mark.parametrize(("front", "back"), SIDES)
def test_training_with_dropout_and_running_statistics(front: str, back: str) -> None:
    net, x = Net(), torch.randn(3, 2, 5, 7)
    results = []
    for compiled in (False, True):
        model = copy.deepcopy(net)
        call = (
            torch.compile(model, backend=aot_mock_backend(front_end=front, back_end=back))
            if compiled
            else model
        )
        torch.manual_seed(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            loss = call(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        results.append((losses, list(model.parameters()), list(model.buffers())))
    close(results[1], results[0], 1e-3)


@pytest.mark.parametrize("front", ["main", "reference"])
def test_each_set_of_sizes_has_a_program(front: str) -> None:
    def scaled(x: Any) -> Any:
        return (x * x.shape[0]).reshape(-1).cumsum(0), x.shape[1]

    compiled = torch.compile(scaled, backend=aot_mock_backend(front_end=front), dynamic=True)
    for size in ((3, 40), (5, 33), (3, 40)):
        x = torch.randn(size)
        close(compiled(x), scaled(x))
    assert run_statistics.collected().graphs == 1
    assert run_statistics.collected().programs == 2


@pytest.mark.parametrize("front", ["main", "reference"])
def test_views_mutation_and_shared_outputs(front: str) -> None:
    def step(x: Any, total: Any) -> Any:
        total.add_(x.sum())
        y = x + 1
        return y, y.t(), x[1:], x

    x, total, other = torch.randn(4, 33), torch.zeros(()), torch.zeros(())
    got = torch.compile(step, backend=aot_mock_backend(front_end=front))(x, total)
    close(got, step(x, other))
    close(total, other)
    got[0][0, 1] = 9
    assert got[1][1, 0] == 9
    assert got[3] is x


def test_graph_breaks_make_several_graphs_and_no_tensors_none() -> None:
    def broken(x: Any) -> Any:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    x = torch.randn(3)
    close(torch.compile(broken, backend=aot_mock_backend(front_end="reference"))(x), broken(x))
    assert run_statistics.collected().graphs == 2
    assert torch.compile(lambda x: x.shape[0], backend=aot_mock_backend(front_end="reference"))(x) == 3


def test_sizes_that_only_the_data_knows_run_on_the_host() -> None:
    def picked(x: Any) -> Any:
        return x[x > 0] * 2

    x = torch.randn(40)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(picked, backend=aot_mock_backend(front_end="reference"))
        close(compiled(x), picked(x))
    assert "whole graph" in run_statistics.collected().fallbacks


@pytest.mark.parametrize("front", ["main", "reference"])
def test_random_numbers_are_those_of_eager(front: str) -> None:
    def noisy(x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(5)

    x = torch.ones(70, 5)
    compiled = torch.compile(noisy, backend=aot_mock_backend(front_end=front))
    torch.manual_seed(7)
    got = compiled(x)
    torch.manual_seed(7)
    close(got, noisy(x))


def test_strict_names_the_operator_and_the_line() -> None:
    def inverse(x: Any) -> Any:
        return torch.special.i0(x * 2)

    compiled = torch.compile(inverse, backend=aot_mock_backend(strict=True, front_end="reference"))
    with pytest.raises(Exception, match="MOCK_STRICT") as error:
        compiled(torch.rand(3))
    assert "i0" in str(error.value)
    assert Path(__file__).name in str(error.value)


def test_tensors_elsewhere_are_refused_by_name() -> None:
    assert issubclass(UnsupportedOnDevice, RuntimeError)
    with pytest.raises(SettingError, match="front_end"):
        aot_mock_backend(front_end="quick")


def test_too_little_memory_is_said() -> None:
    device = Device(memory_bytes=1 << 12)
    compiled = torch.compile(lambda x: x + 1, backend=aot_mock_backend(device=device, front_end="reference"))
    with pytest.raises(Exception, match="do not fit"):
        compiled(torch.zeros(10_000))


def test_artifacts_hold_every_layer(tmp_path: Path) -> None:
    compiled = torch.compile(
        lambda x: x.exp().sum(), backend=aot_mock_backend(artifacts=str(tmp_path), front_end="reference")
    )
    compiled(torch.zeros(40))
    (folder,) = (entry for entry in tmp_path.iterdir() if entry.is_dir())
    assert {"graph.txt", "kernels.txt", "program.txt", "specs"} <= {entry.name for entry in folder.iterdir()}
    assert len(list((folder / "specs").glob("*.json"))) >= 2
    assert '"kernels"' in (tmp_path / "statistics.json").read_text("utf-8")


def test_faults_are_announced(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("MOCK_FAULTS", "fallback_zeros:3")
    adapter._noticed.clear()
    with caplog.at_level(logging.WARNING, logger="accel_lab.mock"):
        torch.compile(lambda x: x + 1, backend=aot_mock_backend(front_end="reference"))(torch.ones(3))
    assert "MOCK FAULTS ARE ON" in caplog.text
    assert "fallback_zeros (fallback, seed 3)" in caplog.text


def test_the_public_names_and_the_registry() -> None:
    assert accel_lab.mock_backend is mock_backend
    assert accel_lab.aot_mock_backend is aot_mock_backend
    backend.register()
    assert "mock" in torch._dynamo.list_backends(exclude_tags=())
    x = torch.randn(5)
    close(torch.compile(torch.sin, backend="mock")(x), x.sin())

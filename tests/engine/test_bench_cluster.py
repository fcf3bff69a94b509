"""bench --engine: a model is measured by one worker, and never taken from an earlier benchmark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from accel_lab.cli.commands import bench_command
from accel_lab.cli.main import main
from accel_lab.core.benchmark import Benchmark, Measurement, RowStatus, Spread
from accel_lab.engine import worker as worker_module
from accel_lab.engine.dispatch import Dispatch
from accel_lab.engine.lab_command import LabRun
from accel_lab.engine.store import Store
from accel_lab.engine.worker import Worker
from accel_lab.execution.builds import Build
from fakes_engine import LOG, FakeEngine, worker_here

FACTS = {"python": "3.11.7", "torch": "2.14.1", "packages": {}, "variables": {}}


class Workers:
    """Stands for ``accel-lab bench`` on the workers, and for the command's way to them."""

    def __init__(self, tmp_path: Path) -> None:
        self.measured: list[str] = []
        self.url = f"memory://{uuid.uuid4().hex}"
        self.worker = Worker(
            store=self.url,
            scratch=str(tmp_path / "scratch"),
            run=self.bench,
            torch_of=lambda python: "2.14.1",
            least_free=0,
        )
        self.after: int | None = None

    def bench(self, words: list[str], *, cwd: Path, folder: Path) -> LabRun:
        model = words[words.index("--model") + 1]
        assert words[:2] == ["bench", "--out"] and words[words.index("--size") + 1] == "small"
        self.measured.append(model)
        if model == "ssm":
            return LabRun(exit_code=3, said="accel-lab: no such device (exit code 3)")
        run = folder / "runs" / "bench-1"
        run.mkdir(parents=True)
        row = Measurement(
            model=model,
            backend="inductor",
            standing=RowStatus.OK,
            latency_ms=Spread.of([1.0, 2.0]),
            folder=str(run / "rows"),
        )
        made = Benchmark(complete=True, environment={**FACTS, "threads": 2}, rows=[row])
        (run / "bench.json").write_text(json.dumps(made.to_json()))
        return LabRun(exit_code=0, said="(exit code 0)")

    @contextmanager
    def dispatching(self, cluster: object, listener: Callable[[str], None]) -> Iterator[Dispatch]:
        yield Dispatch(FakeEngine(self.after), Store(self.url), self.worker, listener=listener)


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    made = Workers(tmp_path)
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    monkeypatch.setattr(worker_module, "worker_name", worker_here)
    monkeypatch.setattr(bench_command, "dispatching", made.dispatching)
    build = Build(python="/x", torch="2.14.1", facts=FACTS)
    monkeypatch.setattr(bench_command, "inspect_build", lambda python, folder: build)
    return made


def call(tmp_path: Path, *words: str) -> int | str | None:
    where = ["--engine", "dask:tcp://x:1", "--store", "file:///x", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--size", "small", *where, *words])
    return ended.value.code


def test_each_model_is_measured_by_a_worker_and_again_each_time(
    tmp_path: Path, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ["--model", "bert", "--model", "resnet18"]
    assert call(tmp_path, *models, "--json") == 0
    made: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in made["rows"]] == ["bert", "resnet18"]
    for row in made["rows"]:
        assert row["notes"] == ["measured on w0"] and row["folder"].startswith(str(tmp_path / "out"))
    assert made["environment"]["threads"] == 2 and made["complete"]
    assert Path(made["artifacts"], "bench.html").is_file()
    assert call(tmp_path, *models, "-q") == 0
    assert sorted(workers.measured) == ["bert", "bert", "resnet18", "resnet18"]


def test_a_model_that_no_worker_could_measure_is_a_failed_row(
    tmp_path: Path, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tmp_path, "--model", "bert", "--model", "ssm", "--json") == 1
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["bert"]["standing"] == "ok" and "no such device" in rows["ssm"]["reason"]


def test_a_lost_scheduler_keeps_what_was_measured(
    tmp_path: Path, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    workers.after = 1
    assert call(tmp_path, "--model", "bert", "--model", "resnet18") == 3
    assert "is gone, or does not answer" in capsys.readouterr().err
    found = json.loads(next((tmp_path / "out").glob("*/bench.json")).read_text())
    assert len(found["rows"]) == 1 and not found["complete"]


def test_figures_of_several_machines_are_not_compared(
    tmp_path: Path, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "base.json"
    base.write_text(json.dumps(Benchmark(complete=True).to_json()))
    assert call(tmp_path, "--model", "bert", "--compare", str(base)) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and workers.measured == []

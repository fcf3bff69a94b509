"""A triage on a real Dask cluster of two processes, one of which is killed while it has a script."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.errors import LabError
from accel_lab.engine.dask_engine import DaskEngine
from accel_lab.engine.dispatch import Dispatch
from accel_lab.engine.store import Store
from accel_lab.engine.worker import Worker
from accel_lab.triage.remote import Remote
from accel_lab.triage.scripts import find_scripts
from accel_lab.triage.triage import Plan, run
from fakes_engine import LOG, bisections, fake_bisect

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


def torch_of(python: str) -> str:
    """In the place of asking an interpreter; a worker finds it by its name."""
    return "2.14.1"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two workers of one thread each, with nannies that start a killed one again."""
    monkeypatch.setenv(LOG, str(tmp_path / "bisections.txt"))
    # A busy machine takes long to start a killed worker again: its nanny is not to be closed for that.
    patience = dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    made = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        local_directory=str(tmp_path / "dask"),
    )
    with patience, made:
        yield made


def test_a_killed_worker_loses_nothing_and_nothing_is_asked_twice(tmp_path: Path, cluster: Any) -> None:
    place = tmp_path / "in"
    place.mkdir()
    stages = ["dynamo", "dynamo kill-once", "fx_passes", "fine", "dynamo"]
    for number, stage in enumerate(stages):
        (place / f"s{number}.py").write_text(f"# {stage}\n{number}\n")
    (tmp_path / "out").mkdir()
    options = ("--python", "/no/python", "--quiet")
    found = find_scripts(place)
    plan = Plan(place=str(place), folder=tmp_path / "out", cwd=str(place), options=options, found=found)
    store, said = f"file://{tmp_path / 'store'}", list[str]()
    worker = Worker(store=store, run=fake_bisect, torch_of=torch_of, least_free=0)
    engine = DaskEngine(cluster.scheduler_address)
    try:
        dispatch = Dispatch(engine, Store(store), worker, listener=said.append)
        with ThreadPoolExecutor(max_workers=6) as pool:
            made = run(plan, pool, Remote(dispatch, "2.14.1"), known={})
    finally:
        engine.close()
    assert {fault["stage"]: fault["members"] for fault in made["faults"]} == {
        "dynamo": ["s0.py", "s1.py", "s4.py"],
        "fx_passes": ["s2.py"],
    }
    assert sorted(bisections()) == ["s0.py", "s1.py", "s2.py", "s3.py", "s4.py"]
    assert any(line.startswith("s1.py: lost on tcp://") for line in said)
    assert list((tmp_path / "dask").glob("*/accel-lab-jobs-*/*/runs")) == []


def test_an_address_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(LabError, match="no Dask scheduler answers at tcp:") as error:
        DaskEngine("tcp://127.0.0.1:9", connect_s=0.5)
    assert error.value.exit_code == 3 and "\n" not in str(error.value)

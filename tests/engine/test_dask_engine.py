"""A real Dask cluster of two processes: a triage of which one is killed, and a matrix of two releases."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fakes_interpreter
from accel_lab.cli.main import main
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


def test_a_matrix_by_real_commands_on_the_workers(
    tmp_path: Path, cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pythons = []
    for release in ("2.98.0", "2.99.0"):
        (tmp_path / release).mkdir()
        python = fakes_interpreter.made(tmp_path / release)
        facts = json.dumps({"python": "3.11.0", "prefix": "/x", "torch": release, "packages": {}})
        imports = "import fakes_interpreter\n"
        version = f"if sys.argv[1] == '-c':\n    print({facts!r})\n    sys.exit()\n"
        named = f"fakes_interpreter.TORCH = {release!r}\n"
        python.write_text(python.read_text().replace(imports, version + imports + named))
        pythons.append(str(python))
    script = tmp_path / "s.py"
    script.write_text(
        "import os, sys\n"
        "if os.environ['FAKE_RUNG'] in ('fx', 'kernel', ''): raise ValueError('boom of ' + sys.argv[1])\n"
    )
    asked = ("--versions", "all", "--pythons", ":".join(pythons), "--rungs", "aot,fx", "--cold")
    where = ("--engine", f"dask:{cluster.scheduler_address}", "--store", f"file://{tmp_path / 'store'}")
    found = []
    for name, engine in (("here", ()), ("there", where)):
        with pytest.raises(SystemExit) as ended:
            main(
                ["matrix", "--out", str(tmp_path / name), "--json", "-q", *asked, *engine, str(script), "all"]
            )
        assert ended.value.code == 1
        rows = json.loads(capsys.readouterr().out)["matrix"]["rows"]
        found.append(
            {row["torch"]: {rung: cell["verdict"] for rung, cell in row["cells"].items()} for row in rows}
        )
    assert found[0] == found[1] and set(found[0]) == {"2.98.0", "2.99.0"}
    assert found[0]["2.99.0"] == {"uncompiled": "good", "aot": "good", "fx": "bad", "kernel": "bad"}
    assert len(list((tmp_path / "store" / "runs").glob("*.zip"))) == 2


def test_an_address_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(LabError, match="no Dask scheduler answers at tcp:") as error:
        DaskEngine("tcp://127.0.0.1:9", connect_s=0.5)
    assert error.value.exit_code == 3 and "\n" not in str(error.value)

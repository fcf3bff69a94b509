"""Jobs on an engine: none is lost, none is asked twice, and each fault of the engine is said."""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.cli import engine_options
from accel_lab.cli.commands import triage_command
from accel_lab.cli.main import main
from accel_lab.engine import worker as worker_module
from accel_lab.engine.dispatch import Dispatch, EngineLost
from accel_lab.engine.lab_command import LabRun
from accel_lab.engine.packing import BadPack, pack, unpack
from accel_lab.engine.store import Store, StoreLost
from accel_lab.engine.worker import MOST_STARTS, Worker
from accel_lab.triage.files import needed_beside, needed_from
from accel_lab.triage.jobs import ERROR, Job, Result
from accel_lab.triage.remote import Remote, packed
from accel_lab.triage.scripts import find_scripts
from accel_lab.triage.triage import Plan, kept_results, run
from fakes_engine import LOG, FakeEngine, bisections, fake_bisect, worker_here

TEXTS = {"a": "# dynamo", "b": "# dynamo\n2", "c": "# fx_passes", "d": "# fine"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, str(tmp_path / "bisections.txt"))
    monkeypatch.setattr(worker_module, "worker_name", worker_here)


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


def place_with(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


class Triage:
    """One triage of a place on a fake engine."""

    def __init__(self, tmp_path: Path, url: str, texts: dict[str, str], *, run: Any = fake_bisect) -> None:
        self.place, self.url = place_with(tmp_path / "in", texts), url
        self.tmp_path, self.said = tmp_path, list[str]()
        self.worker = Worker(
            store=url,
            scratch=str(tmp_path / "scratch"),
            run=run,
            torch_of=lambda python: "2.14.1",
            least_free=0,
        )

    def plan(self, name: str) -> Plan:
        folder = self.tmp_path / name
        folder.mkdir(exist_ok=True)
        options = ("--python", "/no/python", "--quiet")
        found = find_scripts(self.place)
        return Plan(
            place=str(self.place), folder=folder, cwd=str(self.tmp_path), options=options, found=found
        )

    def run(self, name: str, engine: FakeEngine | None = None) -> dict[str, Any]:
        plan = self.plan(name)
        engine = engine or FakeEngine()
        dispatch = Dispatch(engine, Store(self.url), self.worker, listener=self.said.append)
        with ThreadPoolExecutor(max_workers=3) as pool:
            return run(plan, pool, Remote(dispatch, "2.14.1"), known=kept_results(plan.folder))


def members(made: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [(fault["stage"], fault["members"]) for fault in made["faults"]]


FAULTS = [("dynamo", ["a.py", "b.py"]), ("fx_passes", ["c.py"])]


def test_a_triage_through_an_engine_has_its_runs_here_and_asks_nothing_twice(
    tmp_path: Path, url: str
) -> None:
    triage = Triage(tmp_path, url, TEXTS)
    made = triage.run("one")
    assert members(made) == FAULTS and triage.said == []
    for row in made["scripts"]:
        assert Path(row["run"], "report.json").is_file() and Path(row["repro"]).is_file()
        assert Path(row["run"]).is_relative_to(tmp_path / "one")
        assert not Path(row["run"], "lib").exists()
    assert all(fault["bundle"].startswith(str(tmp_path / "one")) for fault in made["faults"])
    assert list((tmp_path / "scratch").iterdir()) == []
    again = triage.run("two")
    assert members(again) == FAULTS and sorted(bisections()) == ["a.py", "b.py", "c.py", "d.py"]


def test_the_scripts_of_a_lost_worker_go_to_another(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, {**TEXTS, "b": "# dynamo end-once\n2"})
    assert members(triage.run("one")) == FAULTS
    assert sorted(bisections()) == ["a.py", "b.py", "c.py", "d.py"]
    assert triage.said == ["b.py: lost on w0; finished on w1"]


def test_a_script_that_ends_its_workers_is_given_up_and_may_be_tried_again(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, {**TEXTS, "c": "# fx_passes end"})
    made = triage.run("one")
    rows = {row["script"]: row for row in made["scripts"]}
    assert rows["c.py"]["verdict"] == ERROR
    assert f"{MOST_STARTS} workers ended while they ran it (w0, w1, w2)" in rows["c.py"]["said"]
    assert members(made) == FAULTS[:1] and sorted(bisections()) == ["a.py", "b.py", "d.py"]
    assert Store(url).names(f"begun/{packed(triage.plan('one').jobs[2], '2.14.1').key}") == []


def test_a_full_disk_sends_the_job_to_another_worker(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, {**TEXTS, "b": "# dynamo full\n2"})
    assert members(triage.run("one")) == FAULTS
    assert triage.said == ["b.py: its disk is full (on w0); it goes to another worker"]
    assert sorted(bisections()) == ["a.py", "b.py", "c.py", "d.py"]


def test_no_room_at_the_start_and_another_lab_or_torch_are_said(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, {"a": "# dynamo"})
    triage.worker = replace(triage.worker, torch_of=lambda python: "2.9.0")
    said = triage.run("one")["scripts"][0]["said"]
    assert "no worker could run it" in said and "torch 2.9.0 there, the job asks for 2.14.1" in said
    triage.worker = replace(triage.worker, least_free=1 << 60)
    assert "MB are needed" in triage.run("two")["scripts"][0]["said"]
    assert bisections() == []


def test_another_lab_on_the_worker_is_said(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    triage = Triage(tmp_path, url, {"a": "# dynamo"})
    monkeypatch.setattr(worker_module, "lab_identity", lambda: "0.0.9 ffff")
    assert "its lab is 0.0.9 ffff, the job is of" in triage.run("one")["scripts"][0]["said"]


def test_what_the_lab_could_not_do_is_not_kept_in_the_store(tmp_path: Path, url: str) -> None:
    ended = [LabRun(exit_code=3, said="accel-lab: no compiler (exit code 3)")]

    def once_broken(words: list[str], *, cwd: Path, folder: Path) -> LabRun:
        return ended.pop() if ended else fake_bisect(words, cwd=cwd, folder=folder)

    triage = Triage(tmp_path, url, {"a": "# dynamo"}, run=once_broken)
    assert "no compiler" in triage.run("one")["scripts"][0]["said"]
    assert triage.run("one")["scripts"][0]["verdict"] == "fails"


def test_a_lost_scheduler_ends_the_triage_and_resume_goes_on(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    triage = Triage(tmp_path, url, TEXTS)
    engines = [FakeEngine(after=2), FakeEngine()]

    @contextmanager
    def dispatching(cluster: object, listener: Callable[[str], None]) -> Iterator[Dispatch]:
        yield Dispatch(engines[0], Store(url), triage.worker, listener=listener)
        engines.pop(0)

    monkeypatch.setattr(triage_command, "dispatching", dispatching)
    monkeypatch.setattr(triage_command, "torch_of", lambda python: "2.14.1")

    def call(*words: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main(["triage", *words, "--jobs", "1"])
        return ended.value.code

    out = tmp_path / "out"
    words = ("--engine", "dask:tcp://x:1", "--store", "file:///x")
    assert call(str(triage.place), "--out", str(out), *words) == 3
    error = capsys.readouterr().err
    folder = next(out.iterdir())
    assert error.splitlines()[-1] == (
        "accel-lab: the scheduler of dask:fake is gone, or does not answer any more; 2 of 4 bisections are "
        f"kept. Go on with: accel-lab triage --resume {folder}"
    )
    engines.pop(0)
    assert call("--resume", str(folder), "--json") == 1
    made = json.loads(capsys.readouterr().out)
    assert members(made) == FAULTS and (made["asked"], made["reused"]) == (2, 2)
    assert made["engine"] == {"name": "dask:tcp://x:1", "store": "file:///x", "faults": []}
    assert sorted(bisections()) == ["a.py", "b.py", "c.py", "d.py"]


class Shaky:
    """A file system that does not answer for the next calls."""

    def __init__(self, files: Any, failures: int) -> None:
        self._files, self.failures = files, failures

    def __getattr__(self, name: str) -> Any:
        def call(*words: Any, **more: Any) -> Any:
            if self.failures > 0:
                self.failures -= 1
                raise ConnectionError("no route")
            return getattr(self._files, name)(*words, **more)

        return call


def test_a_store_that_is_away_for_a_while_is_waited_for(tmp_path: Path, url: str) -> None:
    waits, said = list[float](), list[str]()
    store = Store(url, patience_s=60, wait=waits.append, listener=said.append)
    store._files = Shaky(store._files, 5)
    store.mark("begun/x/1", "w0")
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0] and len(said) == 1 and "ConnectionError: no route" in said[0]
    assert store.read("begun/x/1") == "w0" and store.names("begun/x") == ["begun/x/1"]
    store._files.failures = 1000
    with pytest.raises(StoreLost, match=r"has not answered for \d+ s: ConnectionError: no route"):
        store.has("begun/x/1")


def test_a_worker_that_loses_the_store_keeps_the_run_for_the_next_try(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    triage = Triage(tmp_path, url, {"a": "# dynamo"})
    broken = [True]
    put = Store.put

    def lost(self: Store, source: Path, name: str) -> None:
        if name.startswith("runs/") and broken:
            broken.pop()
            raise StoreLost(f"the store {self.url} has not answered for 150 s")
        put(self, source, name)

    monkeypatch.setattr(Store, "put", lost)
    assert triage.run("one")["scripts"][0]["verdict"] == "fails"
    assert bisections() == ["a.py"] and "has not answered" in triage.said[0]


def test_a_damaged_run_in_the_store_is_made_again_by_the_next_triage(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, {"a": "# dynamo"})
    triage.run("one")
    store, torn = Store(url), tmp_path / "torn.zip"
    torn.write_bytes(b"PK\x03\x04 half")
    store.put(torn, store.names("runs")[0])
    assert "cannot be read" in triage.run("two")["scripts"][0]["said"]
    assert triage.run("three")["scripts"][0]["verdict"] == "fails"
    assert bisections() == ["a.py", "a.py"]


def test_the_key_of_a_job_covers_its_files_the_options_torch_and_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_with(tmp_path / "in", {"a": "import helper\nopen('data/x.txt')\n", "helper": "x = 1\n"})
    (place / "data").mkdir()
    (place / "data" / "x.txt").write_text("1")

    def key(torch: str = "2.14.1", **changes: Any) -> str:
        script = find_scripts(place).scripts[0]
        job = Job(key="k", script=script, options=("--python", "/x", "--quiet"), folder="f", cwd=str(place))
        return packed(replace(job, **changes), torch).key

    first = key()
    assert key(options=("--python", "/y", "--quiet")) == first
    others = {key(torch="2.13.0"), key(options=("--python", "/x", "--budget", "9"))}
    (place / "data" / "x.txt").write_text("2")
    others.add(key())
    (place / "helper.py").write_text("x = 2\n")
    others.add(key())
    monkeypatch.setattr("accel_lab.triage.remote.lab_identity", lambda: "0.0.9 ffff")
    others.add(key())
    assert len(others) == 5 and first not in others


def test_a_large_file_that_scripts_share_lies_in_the_store_once(tmp_path: Path, url: str) -> None:
    sizes = list[int]()

    def bisect(words: list[str], *, cwd: Path, folder: Path) -> LabRun:
        sizes.append(Path(words[-1]).with_name("weights.bin").stat().st_size)
        return fake_bisect(words, cwd=cwd, folder=folder)

    text = "# dynamo\nopen('weights.bin')\n"
    triage = Triage(tmp_path, url, {"a": text, "b": text + "2\n"}, run=bisect)
    (triage.place / "weights.bin").write_bytes(bytes(3 << 20))
    triage.run("one")
    store = Store(url)
    assert sizes == [3 << 20, 3 << 20] and len(store.names("files")) == 1 and len(store.names("jobs")) == 2
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"half")
    store.put(damaged, store.names("files")[0])
    for name in store.names("runs"):
        store.drop(name)
    said = [row["said"] for row in triage.run("two")["scripts"]]
    assert all("is lost or damaged in the store: beside/weights.bin" in line for line in said)
    assert [row["verdict"] for row in triage.run("two")["scripts"]] == ["fails", "fails"]


def test_what_a_script_imports_and_names_travels_and_secrets_do_not(tmp_path: Path) -> None:
    text = (
        "import pack\nfrom helper import x\nopen('w.bin'); open('id.pem'); open('data'); open('../up.txt')\n"
    )
    place = place_with(
        tmp_path / "in", {"a": text, "helper": "import second\n", "second": "1\n", "other": "1"}
    )
    (tmp_path / "up.txt").write_text("1")
    for name in ("pack/__init__.py", "pack/inner/__init__.py", "w.bin", "id.pem", "data/one.csv", "data/.h"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("1")
    names = {"data/one.csv", "helper.py", "pack/__init__.py", "pack/inner/__init__.py", "second.py", "w.bin"}
    assert set(needed_beside(place / "a.py")) == names
    assert set(needed_from(tmp_path, place_with(place, {"b": "open('in/w.bin')\n"}) / "b.py")) == {"in/w.bin"}


def test_a_pack_is_unpacked_below_its_folder_only(tmp_path: Path) -> None:
    tool = tmp_path / "tool.sh"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    pack(tmp_path / "good.zip", [("x/tool.sh", tool)], [("y.txt", "text")])
    unpack(tmp_path / "good.zip", tmp_path / "good")
    assert (tmp_path / "good" / "y.txt").read_text() == "text"
    assert (tmp_path / "good" / "x" / "tool.sh").stat().st_mode & 0o100
    for number, name in enumerate(("../out.txt", "/etc/out.txt", "x/../../out.txt")):
        bad = tmp_path / f"bad{number}.zip"
        with zipfile.ZipFile(bad, "w") as archive:
            archive.writestr(name, "1")
        with pytest.raises(BadPack, match="leads out of its folder"):
            unpack(bad, tmp_path / "bad" / "deep")
    (tmp_path / "torn.zip").write_bytes((tmp_path / "good.zip").read_bytes()[:60])
    with pytest.raises(BadPack, match="damaged"):
        unpack(tmp_path / "torn.zip", tmp_path / "torn")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--engine", "ray"], 2, "it is local, or dask:ADDRESS"),
        (["--engine", "dask:"], 2, "it is local, or dask:ADDRESS"),
        (["--engine", "dask:tcp://x:1"], 2, "needs --store URL"),
        (["--store", "file:///x"], 2, "name its scheduler"),
        (["--engine", "dask:tcp://x:1", "--store", "memory://x"], 2, "of one process only"),
        (["--jobs", "65"], 2, "this machine runs at most 64"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, says: str
) -> None:
    place = place_with(tmp_path / "in", {"a": "1"})
    with pytest.raises(SystemExit) as ended:
        main(["triage", str(place), "--out", str(tmp_path / "out"), *words])
    error = capsys.readouterr().err
    assert ended.value.code == code and says in error and len(error.splitlines()) == 1


@pytest.mark.parametrize("missing", ["distributed", "fsspec"])
def test_a_missing_extra_is_one_line_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, missing: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, missing, None)
    monkeypatch.setattr(triage_command, "torch_of", lambda python: "2.14.1")
    place = place_with(tmp_path / "in", {"a": "1"})
    words = ["--engine", "dask:tcp://127.0.0.1:1", "--store", f"file://{tmp_path / 'store'}"]
    with pytest.raises(SystemExit) as ended:
        main(["triage", str(place), "--out", str(tmp_path / "out"), *words])
    assert ended.value.code == 2
    assert "pip install 'accel-lab[cluster]'" in capsys.readouterr().err


def test_the_user_s_stop_ends_all_waiting(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, {"a": "# dynamo"})
    dispatch = Dispatch(FakeEngine(), Store(url), triage.worker)
    dispatch.stop()
    found: Result = Remote(dispatch, "2.14.1")(triage.plan("one").jobs[0])
    assert (found.verdict, found.said, bisections()) == (ERROR, "interrupted", [])


def test_a_scheduler_without_workers_is_said(tmp_path: Path, url: str) -> None:
    triage, engine, said = Triage(tmp_path, url, {"a": "# dynamo slow"}), FakeEngine(), list[str]()
    engine.workers = 0
    dispatch = Dispatch(engine, Store(url), triage.worker, listener=said.append, look_s=0.05)
    assert Remote(dispatch, "2.14.1")(triage.plan("one").jobs[0]).verdict == "fails"
    assert said == ["no worker is connected to the scheduler: jobs wait for one"]


def test_a_lost_engine_is_lost_for_every_later_job(tmp_path: Path, url: str) -> None:
    triage = Triage(tmp_path, url, TEXTS)
    engine = FakeEngine(after=0)
    with pytest.raises(EngineLost, match="is gone"):
        triage.run("one", engine)
    assert kept_results(tmp_path / "one") == {} and bisections() == []


def test_the_options_name_a_cluster() -> None:
    found = engine_options.chosen("dask:tcp://x:8786", "s3://b/lab")
    assert found is not None and (found.name, found.address) == ("dask:tcp://x:8786", "tcp://x:8786")
    path = engine_options.chosen("dask:tcp://x:8786", "shared/lab")
    assert path is not None and path.store == f"file://{Path.cwd() / 'shared' / 'lab'}"
    assert engine_options.chosen("local", None) is None and engine_options.chosen(None, None) is None

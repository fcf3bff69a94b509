"""matrix --engine and bisect --versions --engine: the workers' runs give what this machine's would."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from accel_lab.cli import release_cluster
from accel_lab.cli.commands import matrix_command
from accel_lab.cli.main import main
from accel_lab.core.errors import LabError
from accel_lab.core.signature import Signature
from accel_lab.engine import worker as worker_module
from accel_lab.engine.dispatch import Dispatch
from accel_lab.engine.lab_command import LabRun
from accel_lab.engine.packing import files_below
from accel_lab.engine.store import Store
from accel_lab.engine.worker import Worker
from accel_lab.execution.programs import read_program
from accel_lab.reporting.page import matrix_plot
from accel_lab.reporting.schema import findings_json
from accel_lab.request import Request
from accel_lab.search.diagnosis import Options
from accel_lab.search.repeats import Tally
from accel_lab.session import Session
from accel_lab.versions import line as line_module
from accel_lab.versions.build_verdict import TargetFailure
from accel_lab.versions.line import VersionsRequest
from accel_lab.versions.release_judge import ReleaseJudge
from accel_lab.versions.release_session import ReleaseSessions, Setting
from accel_lab.versions.remote_release import REMOTE, RemoteLost, SentFailure
from fakes_engine import LOG, FakeEngine, WorkerEnded, worker_here
from fakes_releases import Behave, Deed, FakeProvider, broken_between

NAMES = ["2.4.0", "2.5.0", "2.6.0", "2.7.0", "2.8.0", "2.9.0"]
_there = threading.local()


class Cluster:
    """Workers whose ``accel-lab matrix`` is the real one on a line of fake builds, and who asks them."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behave: Behave, **more: Any) -> None:
        self.here, self.there = (FakeProvider(behave=behave, names=NAMES, **more) for _ in range(2))
        self.url, self.out = f"memory://{uuid.uuid4().hex}", tmp_path / "out"
        self.script = tmp_path / "s.py"
        self.script.write_text("import torch\nprint('x')\n")
        self.worker = Worker(store=self.url, scratch=str(tmp_path / "scratch"), run=self.matrix, least_free=0)
        self.after: int | None = None
        self.ends: list[str] = []
        self.commands: list[list[str]] = []
        monkeypatch.setenv(LOG, str(tmp_path / "log"))
        monkeypatch.setattr(worker_module, "worker_name", worker_here)
        monkeypatch.setattr(release_cluster, "dispatching", self.dispatching)
        monkeypatch.setattr(matrix_plot, "png", lambda grid: b"a picture")
        show = matrix_command._show
        monkeypatch.setattr(  # a worker's command prints to a file of its own
            matrix_command, "_show", lambda *args: None if hasattr(_there, "worker") else show(*args)
        )
        monkeypatch.setattr(
            line_module,
            "provider",
            lambda name, options, run: self.there if hasattr(_there, "worker") else self.here,
        )

    def matrix(self, words: list[str], *, cwd: Path, folder: Path) -> LabRun:
        """Stands for the process of the command; a path of the job is named as from its working directory."""
        _there.worker = worker_here()
        words = [str((cwd / word).resolve()) if word.startswith("../") else word for word in words]
        self.commands.append(words)
        version = words[words.index("--versions") + 1] if "--versions" in words else ""
        try:
            code = matrix_command.command.main(args=words[1:], standalone_mode=False)
        except LabError as error:
            return LabRun(exit_code=error.exit_code, said=f"accel-lab: {error} (exit code 3)")
        if version in self.ends:
            self.ends.remove(version)
            raise WorkerEnded
        return LabRun(exit_code=code, said=f"(exit code {code})")

    @contextmanager
    def dispatching(self, cluster: object, listener: Callable[[str], None]) -> Iterator[Dispatch]:
        yield Dispatch(FakeEngine(self.after), Store(self.url), self.worker, listener=listener)

    def call(self, command: str, *words: str) -> int | str | None:
        with pytest.raises(SystemExit) as ended:
            main([command, "--out", str(self.out), *words])
        return ended.value.code

    def findings(self, folder: Path, engine: bool) -> dict[str, Any]:
        """A bisection for a user whose interpreter has no torch."""
        folder.mkdir()
        request = Request(
            program=read_program(str(self.script), None, ()),
            python="/no/python",
            versions=VersionsRequest(spec="all", provider="uv", companions=False),
            options=Options(components=False),
            workers=4,
        )
        cluster = release_cluster.chosen("dask:tcp://x:1", "file:///x") if engine else None
        with release_cluster.releases(
            cluster, request, folder, command="bisect", listener=lambda line: None
        ) as remote:
            return findings_json(Session(request, folder, remote=remote).run())


ENGINE = ("--engine", "dask:tcp://x:1", "--store", "file:///x")


def grid_of(found: dict[str, Any]) -> dict[str, Any]:
    """A matrix without what a clock or a folder's name says."""
    rows = [
        {**row, "cells": {name: {**cell, "seconds": 0} for name, cell in row["cells"].items()}}
        for row in found["matrix"]["rows"]
    ]
    kept = ("signature", "seen_on", "sentences", "environments", "probes", "notes")
    return {"rows": without_keys(rows), **{name: found[name] for name in kept}}


def without_keys(rows: Any) -> Any:
    """The folders of probes are named by keys, which the script's place is part of."""
    if isinstance(rows, list):
        return [without_keys(row) for row in rows]
    if isinstance(rows, dict):
        changed = {
            name: value for name, value in rows.items() if name not in ("folder", "outcome", "seconds")
        }
        return {name: without_keys(value) for name, value in changed.items()}
    return rows


def test_a_matrix_of_workers_is_that_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    behave = broken_between("2.6.0", "2.8.0", NAMES)
    cluster = Cluster(tmp_path, monkeypatch, behave)
    words = ("--versions", "2.5.0,2.6.0", "--rungs", "fx", "--json", "--quiet")
    assert cluster.call("matrix", *words, str(cluster.script), "an argument") == 1
    alone, runs = json.loads(capsys.readouterr().out), len(cluster.here.runs)
    assert cluster.call("matrix", *words, *ENGINE, str(cluster.script), "an argument") == 1
    by_workers = json.loads(capsys.readouterr().out)
    assert grid_of(by_workers) == grid_of(alone) and by_workers["matrix"]["rows"]
    assert len(cluster.here.runs) == runs == len(cluster.there.runs)
    assert all(
        words[-2:] == [words[-2], "an argument"] and words[-2].endswith("s.py") for words in cluster.commands
    )
    folder = Path(by_workers["artifacts"])
    for row in by_workers["matrix"]["rows"]:
        assert (folder / "versions" / row["torch"] / REMOTE).is_file()
        for cell in row["cells"].values():
            assert (folder / cell["folder"] / "outcome.json").is_file()
    assert (folder / "matrix.html").is_file() and not (folder / "fetched").exists()
    # Asked again, all is in the store; gone on with, all is in the folder.
    assert cluster.call("matrix", *words, *ENGINE, str(cluster.script), "an argument") == 1
    assert cluster.call("matrix", "--resume", str(folder), "--json", "--quiet") == 1
    assert len(cluster.there.runs) == runs == len(cluster.here.runs)


def test_a_release_that_no_worker_can_have_is_a_reason_and_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(
        tmp_path, monkeypatch, broken_between("2.6.0", None, NAMES), missing={"2.5.0": "no wheel"}
    )
    words = ("--versions", "2.5.0,2.6.0", "--rungs", "fx", "--json", "--quiet", *ENGINE, str(cluster.script))
    for _ in range(2):
        assert cluster.call("matrix", *words) == 1
        rows = {row["torch"]: row for row in json.loads(capsys.readouterr().out)["matrix"]["rows"]}
        assert "no wheel" in rows["2.5.0"]["cells"]["kernel"]["why"]
        assert rows["2.6.0"]["cells"]["kernel"]["verdict"] == "bad"
    assert [words[words.index("--versions") + 1] for words in cluster.commands].count("2.5.0") == 2


def test_the_releases_of_a_lost_worker_go_to_another_and_nothing_is_asked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, broken_between("2.6.0", None, NAMES))
    cluster.ends = ["2.6.0"]
    assert (
        cluster.call(
            "matrix",
            "--versions",
            "2.5.0,2.6.0",
            "--rungs",
            "fx",
            "--json",
            "--quiet",
            *ENGINE,
            str(cluster.script),
        )
        == 1
    )
    found = json.loads(capsys.readouterr().out)
    assert found["notes"] == ["torch 2.6.0: lost on w0; finished on w1"]
    assert sorted(cluster.there.runs) == sorted(set(cluster.there.runs))


def test_a_lost_scheduler_ends_the_matrix_and_resume_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, broken_between("2.6.0", None, NAMES))
    cluster.after = 1
    assert (
        cluster.call(
            "matrix", "--versions", "2.5.0,2.6.0", "--rungs", "fx", "--quiet", *ENGINE, str(cluster.script)
        )
        == 3
    )
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and "is gone, or does not answer" in said[0]
    again = said[0].rpartition("accel-lab matrix --resume ")[2]
    cluster.after = None
    assert cluster.call("matrix", "--resume", again, "--json", "--quiet") == 1
    rows = json.loads(capsys.readouterr().out)["matrix"]["rows"]
    assert [row["cells"]["kernel"]["verdict"] for row in rows] == ["good", "bad"]
    assert sorted(cluster.there.runs) == sorted(set(cluster.there.runs)) and cluster.here.runs == []


def test_a_bisection_along_a_line_of_workers_is_that_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave = broken_between("2.6.0", "2.8.0", NAMES)
    alone = Cluster(tmp_path, monkeypatch, behave).findings(tmp_path / "alone", engine=False)
    cluster = Cluster(tmp_path, monkeypatch, behave)
    found = cluster.findings(tmp_path / "cluster", engine=True)
    names = ("flips", "line", "last_good", "first_bad", "notes", "complete")
    assert {name: found["versions"][name] for name in names} == {
        name: alone["versions"][name] for name in names
    }
    one, two = ({row["torch"]: row["verdict"] for row in f["versions"]["tested"]} for f in (alone, found))
    assert all(one[name] == two[name] for name in one.keys() & two.keys())
    assert found["culprit"]["stage"] == alone["culprit"]["stage"]
    judged = {words[words.index("--versions") + 1] for words in cluster.commands}
    assert judged and all("--failure" in words for words in cluster.commands)
    # What a worker has judged is not judged here; the sides of a flip are looked into here.
    sides = {flip[side] for flip in found["versions"]["flips"] for side in ("after", "at")}
    tried = {release for release, _ in cluster.here.runs}
    assert not (judged & tried) - sides


def test_a_failure_that_comes_now_and_then_is_judged_by_as_many_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        fails = rung == "kernel" and release == "2.6.0" and not job["bare"] and job["seed"] % 3 == 2
        return ("ValueError", "boom") if fails else "ok"

    target = TargetFailure(
        signature=Signature(kind="exception", type="ValueError", message="boom"),
        tally=Tally(runs=6, failures=2),
    )
    cluster = Cluster(tmp_path, monkeypatch, behave)
    rows = []
    for engine in (False, True):
        folder = tmp_path / f"run{engine}"
        folder.mkdir()
        request = Request(
            program=read_program(str(cluster.script), None, ()),
            versions=VersionsRequest(spec="2.5.0,2.6.0", provider="uv"),
        )
        asked = release_cluster.chosen("dask:tcp://x:1", "file:///x") if engine else None
        with release_cluster.releases(
            asked, request, folder, command="bisect", listener=lambda line: None
        ) as remote:
            setting = Setting(program=request.program, folder=folder, remote=remote)
            with ReleaseJudge(ReleaseSessions(setting, cluster.here), target) as judge:
                rows.append([judge.judge(version) for version in ("2.5.0", "2.6.0")])
    told = [[(row.verdict, row.runs, row.error) for row in judged] for judged in rows]
    assert told[0] == told[1]
    assert [row.verdict.value for row in rows[1]] == ["good", "bad"]
    assert len(cluster.here.runs) == len(cluster.there.runs)


def test_a_lost_scheduler_ends_the_bisection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, monkeypatch, broken_between("2.6.0", "2.8.0", NAMES))
    cluster.after = 0
    with pytest.raises(RemoteLost, match=r"is gone.*accel-lab bisect --resume"):
        cluster.findings(tmp_path / "run", engine=True)


def test_a_damaged_answer_of_a_worker_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, broken_between("2.6.0", None, NAMES))
    real = cluster.matrix

    def damaged(words: list[str], *, cwd: Path, folder: Path) -> LabRun:
        ended = real(words, cwd=cwd, folder=folder)
        path = next(folder.glob("runs/*/matrix.json"))
        grid = json.loads(path.read_text())
        grid["environments"]["2.6.0"]["spec"] = "another shape"
        path.write_text(json.dumps(grid))
        return ended

    cluster.worker = Worker(store=cluster.url, scratch=str(tmp_path / "scratch"), run=damaged, least_free=0)
    assert (
        cluster.call(
            "matrix",
            "--versions",
            "2.6.0",
            "--rungs",
            "fx",
            "--json",
            "--quiet",
            *ENGINE,
            str(cluster.script),
        )
        == 125
    )
    found = json.loads(capsys.readouterr().out)
    assert "spec" in found["matrix"]["rows"][0]["cells"]["kernel"]["why"]
    assert not (Path(found["artifacts"]) / "versions").exists()


def test_what_is_sent_of_a_failure_comes_back() -> None:
    target = TargetFailure(
        signature=Signature(kind="exception", type="ValueError", message="boom <n>", said="boom 3"),
        tally=Tally(runs=4, failures=2),
        verdicts=3,
        eager=True,
        compiled=False,
    )
    sent = SentFailure.from_json(json.loads(json.dumps(SentFailure.of(target).to_json())))
    assert sent.target == target and sent.signature.said == ""


def test_the_copies_of_the_lab_are_not_packed(tmp_path: Path) -> None:
    for name in ("runs/r/lib/x.py", "runs/r/versions/2.6.0/lib/x.py", "runs/r/probes/k/lib/x.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("pass\n")
    assert [name for name, _ in files_below(tmp_path)] == ["runs/r/probes/k/lib/x.py"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bisect", *ENGINE, "s.py"), "name them with --versions"),
        (("bisect", "--versions", "all", "--metric", "latency", *ENGINE, "s.py"), "one machine"),
        (("bisect", "--versions", "all", *ENGINE, "-m", "json"), "--engine takes a script"),
        (("matrix", "--versions", "all", *ENGINE, "n.ipynb"), "save the notebook"),
        (("matrix", "--versions", "all", "--engine", "dask:tcp://x:1", "s.py"), "needs --store URL"),
        (("matrix", "--versions", "all", "--engine", "slurm", "s.py"), "it is local, or dask:ADDRESS"),
    ],
)
def test_wrong_options_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, broken_between("2.6.0", None, NAMES))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.ipynb").write_text(
        json.dumps(
            {
                "cells": [{"cell_type": "code", "source": "x = 1"}],
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {},
            }
        )
    )
    assert cluster.call(*words) == 2
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1 and said in errors[0]
    assert not cluster.out.exists()


def test_without_an_engine_the_store_is_the_folder_of_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, broken_between("2.6.0", None, NAMES))
    kept = tmp_path / "environments"
    where = ("--engine", "local", "--store", str(kept), "--provider", "uv")
    assert (
        cluster.call("matrix", "--versions", "2.6.0", "--rungs", "fx", "--quiet", *where, str(cluster.script))
        == 1
    )
    asked = json.loads(next(cluster.out.glob("*/request.json")).read_text())
    assert asked["versions"]["options"]["folder"] == str(kept) and cluster.commands == []

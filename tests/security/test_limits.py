"""A cap on all that a run writes, and a disk that is full: one line each, and nothing lost."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import fakes_interpreter
from accel_lab.cli import main as cli
from accel_lab.core.machine.disk_usage import DiskUsage
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.execution.journal import Journal
from accel_lab.execution.processes import process
from accel_lab.execution.run_folder import workspace

WRITER = """
import os, sys
place = sys.argv[1]
for turn in range(200):
    with open(os.path.join(place, "part%d" % turn), "wb") as stream:
        stream.write(os.urandom(1 << 20))
"""


def run(tmp_path: Path, code: str, *words: str, limits: Limits, written: list[Path]) -> ProcessExit:
    return process.run(
        [sys.executable, "-S", "-c", code, *words],
        cwd=tmp_path,
        env={},
        stdout=tmp_path / "out",
        stderr=tmp_path / "err",
        limits=limits,
        marker="disk",
        written=written,
    )


@pytest.mark.parametrize("deep", ["", "a/b/c"])
def test_many_small_files_are_capped_together(tmp_path: Path, deep: str) -> None:
    place = tmp_path / "place" / deep
    place.mkdir(parents=True)
    code = WRITER + "import time; time.sleep(60)"
    limits = Limits(timeout_s=50, disk_mb=20)
    assert run(tmp_path, code, str(place), limits=limits, written=[tmp_path / "place"]).limit == "disk"
    assert run(tmp_path, "pass", limits=limits, written=[]).exit_code == 0


def test_a_sparse_file_a_link_and_a_second_name_count_nothing(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(1 << 34)
    (tmp_path / "one").write_bytes(os.urandom(1 << 20))
    os.link(tmp_path / "one", tmp_path / "two")
    (tmp_path / "link").symlink_to("/usr")
    assert 0.9 < DiskUsage([tmp_path], 1000)._measure() < 1.2


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("ACCEL_LAB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    Path("repro.py").write_text("import os\nassert os.environ['FAKE_RUNG'] not in ('', 'kernel')\n")
    return ["--python", str(fakes_interpreter.made(tmp_path))]


def call(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    return int(ended.value.code or 0)


def test_a_run_that_fills_its_folder_its_temporary_folder_or_its_view_is_told_so(
    words: list[str], capsys: Any
) -> None:
    for place in ("'.'", "os.environ['TMPDIR']", "os.environ['TORCHINDUCTOR_CACHE_DIR']"):
        Path("repro.py").write_text(WRITER.replace("sys.argv[1]", place) + "import time; time.sleep(60)")
        assert call("run", *words, "--max-disk", "16", "repro.py") == 1
        said = capsys.readouterr().out
        assert "wrote more than 16 MB; --max-disk allows more" in said
        assert os.listdir() == ["repro.py"]


def full(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "journal.jsonl")


def test_a_full_disk_ends_a_run_in_one_line_and_it_is_resumed(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    turns = iter(range(1000))
    write = Journal._write
    monkeypatch.setattr(Journal, "_write", lambda self, row: (full if next(turns) > 5 else write)(self, row))
    assert call("bisect", "-q", "--no-bundle", "--no-minimize", *words, "repro.py") == 3
    (line,) = capsys.readouterr().err.splitlines()
    (folder,) = (tmp_path / "home" / "runs").iterdir()
    assert "the disk is full (journal.jsonl)" in line
    assert line.endswith(f"go on with: accel-lab bisect --resume {folder}")
    monkeypatch.setattr(Journal, "_write", write)
    monkeypatch.setattr(workspace, "LEAST_ROOM", 1 << 62)  # there is no room for a run, before it starts
    assert call("bisect", "-q", "--no-bundle", "--resume", str(folder)) == 3
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(workspace, "LEAST_ROOM", 0)
    assert call("bisect", "-q", "--no-bundle", "--resume", str(folder)) in (1, 125)

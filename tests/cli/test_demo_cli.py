"""`accel-lab demo`: every step shows its command, runs it and must end as it says; once for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from accel_lab.cli import main
from accel_lab.cli.commands import demo_command
from accel_lab.cli.demo_steps import FAULT, SCRIPT, SHIPPED, STEPS
from accel_lab.core.errors import LabError, UsageError

ROOT = Path(__file__).resolve().parents[2]


class Lab:
    """Stands for the commands: leaves the files that they leave, and ends as it is told."""

    def __init__(self, **codes: int) -> None:
        self.codes = {"verify": 0, **codes}
        self.asked: list[list[str]] = []
        self.faults: set[str | None] = set()

    def __call__(self, argv: Sequence[str]) -> int:
        self.asked.append(list(argv))
        self.faults.add(os.environ.get("MOCK_FAULTS"))
        assert os.environ.get("MOCK_CORES") is None
        if "--out" in argv:
            run = Path(argv[argv.index("--out") + 1], "attention_demo.py-1")
            layers = run / "mock" / "graph0"
            layers.mkdir(parents=True)
            (layers / "fused.txt").write_text("\n".join(f"line {n}" for n in range(40)))
            (layers / "memory_plan.txt").write_text("arena 6144 bytes")
            (run / "bundle.zip").write_text("")
        return self.codes.get(argv[0], 1)


@pytest.fixture
def tour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Lab], Result]:
    monkeypatch.setenv("MOCK_CORES", "3")

    def shown(lab: Lab) -> Result:
        monkeypatch.setattr(main, "run", lab)
        words = ["--yes", "--out", str(tmp_path)]
        return CliRunner().invoke(demo_command.command, words, standalone_mode=False)

    return shown


def test_every_step_shows_the_command_that_it_runs(tour: Callable[[Lab], Result]) -> None:
    lab = Lab()
    done = tour(lab)
    assert done.exception is None and done.return_value == 0, done.output
    assert [words[0] for words in lab.asked] == ["check", "capture", "diff", "bisect", "verify"]
    assert lab.faults == {FAULT} and os.environ["MOCK_CORES"] == "3" and "MOCK_FAULTS" not in os.environ
    for words in lab.asked:
        assert f"$ MOCK_FAULTS={FAULT} accel-lab {' '.join(words)}" in done.output
        assert words[0] == "verify" or Path(words[-1]).read_text() == SHIPPED.read_text()
        assert words[0] == "verify" or Path(words[-1]).name == SCRIPT
    assert lab.asked[-1][-1].endswith("bundle.zip")
    assert (
        "fused.txt:\n  line 0" in done.output
        and "arena 6144 bytes" in done.output
        and "16 more lines" in done.output
    )
    assert all(f"{number}/{len(STEPS)}  {step.title}" in done.output for number, step in enumerate(STEPS, 1))


def test_a_step_that_shows_something_else_ends_the_tour(tour: Callable[[Lab], Result]) -> None:
    lab = Lab(diff=0)
    done = tour(lab)
    assert isinstance(done.exception, LabError) and not isinstance(done.exception, UsageError)
    assert "step 3 ended with exit code 0, 1 was expected" in str(done.exception)
    assert len(lab.asked) == 3 and "MOCK_FAULTS" not in os.environ
    assert tour(Lab(check=130)).return_value == 130


def test_without_a_terminal_it_must_be_told_to_go_on(tmp_path: Path) -> None:
    done = CliRunner().invoke(demo_command.command, ["--out", str(tmp_path)], standalone_mode=False)
    assert isinstance(done.exception, UsageError) and "accel-lab demo --yes" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_q_ends_the_tour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lab = Lab()
    monkeypatch.setattr(main, "run", lab)
    answers = iter(["\n", "q\n"])

    monkeypatch.setattr(demo_command, "is_terminal", lambda: True)
    monkeypatch.setattr(demo_command, "read_answer", lambda: next(answers))
    done = CliRunner().invoke(demo_command.command, ["--out", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 0 and [words[0] for words in lab.asked] == ["check"]
    assert "Enter runs it, q ends the tour" in done.output and "The tour ends here" in done.output


@pytest.mark.torch
@pytest.mark.slow
def test_the_whole_tour(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("MOCK_")}
    env |= {"PYTHONPATH": str(ROOT / "bisect"), "ACCEL_LAB_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-m", "accel_lab", "demo", "--yes"],
        check=False,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("VIOLATES", "memory_plan.txt", "back end", "exp", "MATCH", "That was all"):
        assert words in done.stdout, words

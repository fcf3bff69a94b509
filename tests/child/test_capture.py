"""Capturing on a real torch: every graph becomes a script that runs, and the run itself is not disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober
from accel_lab.reduction.graph.emit import Check, emit
from accel_lab.reduction.graph.load import Capture, load_captures, programs_of
from accel_lab.reduction.problem import Candidate

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SCRIPT = Path(__file__).parents[1] / "data" / "capture_forms.py"


def ask(prober: Prober, path: Path, rung: Rung, **switches: object) -> Outcome:
    return prober.ask(
        Probe(
            program=Program(path=str(path), sha256=str(path)),
            rung=rung,
            switches=tuple(switches.items()),
            limits=Limits(timeout_s=200.0),
        )
    )


def printed(outcome: Outcome) -> str:
    assert outcome.status is Status.OK, outcome.raised
    return (Path(outcome.folder) / "stdout.txt").read_text()


@pytest.fixture(scope="module")
def outcome(prober: Prober) -> Outcome:
    return ask(prober, SCRIPT, Rung.DYNAMO, capture=True)


@pytest.fixture(scope="module")
def captures(outcome: Outcome) -> list[Capture]:
    assert outcome.status is Status.OK, outcome.raised
    return load_captures(Path(outcome.folder))


def written(candidate: Candidate, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in candidate.files.items():
        (folder / name).symlink_to(path)
    script = folder / "repro.py"
    script.write_text(candidate.source)
    return script


def test_the_run_draws_the_same_random_numbers(prober: Prober, outcome: Outcome) -> None:
    assert printed(outcome) == printed(ask(prober, SCRIPT, Rung.DYNAMO))


def test_what_a_script_of_plain_torch_cannot_say_is_told(captures: list[Capture]) -> None:
    reasons = [capture.reason for capture in captures if capture.reason]
    assert len(reasons) == 1
    assert "mine" in reasons[0]


def test_inputs_keep_sharing_layout_and_autograd_state(captures: list[Capture]) -> None:
    shared, net = captures[0].calls[0]["inputs"], captures[1].calls[0]["inputs"]
    by_name = {entry["name"]: entry for entry in shared}
    assert by_name["l_whole_"]["storage"] == by_name["l_part_"]["storage"]
    assert by_name["l_part_"]["offset"] == 4
    assert by_name["l_transposed_"]["stride"] == [1, 3]
    assert sum(entry["parameter"] and entry["requires_grad"] for entry in net) == 4
    assert [known["output"] for known in captures[1].calls[0]["backward"]] == [0]
    assert captures[1].calls[0]["values"]


def test_symbolic_sizes_follow_the_tensor(captures: list[Capture]) -> None:
    symbolic = [capture for capture in captures if capture.data["sizes"]]
    assert symbolic
    for capture in symbolic:
        assert {name for name, _ in capture.data["sizes"].values()} == {"l_x_"}


def test_every_program_runs_and_agrees_with_itself(
    prober: Prober, captures: list[Capture], tmp_path: Path
) -> None:
    programs = programs_of(captures)
    assert len(programs) >= len(captures)
    for number, program in enumerate(programs):
        script = written(emit(program, Check(stride=True)), tmp_path / str(number))
        done = ask(prober, script, Rung.DYNAMO)
        assert done.status is Status.OK, (script.read_text(), done.raised)
        assert len(done.facts["regions"]) == len(program.functions)

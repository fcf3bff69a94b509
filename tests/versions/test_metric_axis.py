"""A regression that is a number, over fake builds: samples, flips, and what cannot be measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Program
from accel_lab.core.releases.flip_details import MetricPair
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.words import versions
from accel_lab.versions.metric import MetricAxis, number
from accel_lab.versions.release_session import ReleaseSessions, Setting
from fakes_releases import Deed, FakeProvider

NAMES = ["2.4.0", "2.5.0", "2.6.0", "2.7.0", "2.8.0"]
CALLS = {"calls": 3, "graph_breaks": 0, "recompiles": 0, "kernels": 2, "peak_memory": 10.0}


def ok(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
    return "ok"


def axis(tmp_path: Path, provider: FakeProvider, metric: str, worse_by: float = 1.3) -> MetricAxis:
    script = tmp_path / "s.py"
    script.write_text("import torch\n")
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    setting = Setting(program=Program(path=str(script)), folder=folder, limits=Limits(timeout_s=30))
    made = MetricAxis(ReleaseSessions(setting, provider), NAMES, metric, worse_by)
    made.run()
    return made


def test_a_counter_that_grows_is_found_with_one_run_each(tmp_path: Path) -> None:
    def numbers(release: str, attempt: int) -> Mapping[str, Any]:
        return {**CALLS, "kernels": 2 if release < "2.6" else 5, "compile_time": 1.0}

    provider = FakeProvider(behave=ok, names=NAMES, numbers=numbers)
    found = axis(tmp_path, provider, "kernels")
    assert found.worse
    (flip,) = found.versions.flips
    assert (flip.kind, flip.after, flip.at) == ("introduced", "2.5.0", "2.6.0")
    assert flip.details.numbers["kernels"] == MetricPair(good=2, bad=5)
    assert any("generated kernels: 2 -> 5" in note for note in flip.notes)
    assert flip.details.code[0].kind == "output_code"
    assert {row.runs for row in found.versions.tested} == {1}
    assert found.versions.metric.name == "kernels"
    rows = {row.torch: row for row in versions.rows_of(found.versions)}
    assert rows["2.6.0"].number == "5 (2.50x)"


def test_a_time_is_found_through_its_noise_and_asks_nothing_twice(tmp_path: Path) -> None:
    def numbers(release: str, attempt: int) -> Mapping[str, Any]:
        base = 1.0 if release < "2.7" else 2.0
        return {**CALLS, "compile_time": base * (1 + 0.05 * ((attempt * 7) % 5)), "latency": 0.1}

    provider = FakeProvider(behave=ok, names=NAMES, numbers=numbers)
    found = axis(tmp_path, provider, "compile_time")
    assert [(f.after, f.at) for f in found.versions.flips] == [("2.6.0", "2.7.0")]
    assert found.versions.confidence is not None
    asked = len(provider.runs)
    again = axis(tmp_path, provider, "compile_time")
    assert len(provider.runs) == asked
    assert again.versions.flips == found.versions.flips


def test_no_release_is_worse(tmp_path: Path) -> None:
    provider = FakeProvider(behave=ok, names=NAMES, numbers=lambda release, attempt: CALLS)
    found = axis(tmp_path, provider, "graph_breaks")
    assert not found.worse
    assert found.versions.flips == ()


def test_a_release_on_which_the_script_fails_is_a_skip(tmp_path: Path) -> None:
    def behave(release: str, rung: str, job: Mapping[str, Any]) -> Deed:
        return ("AttributeError", "gone") if release == "2.6.0" else "ok"

    provider = FakeProvider(
        behave=behave,
        names=NAMES,
        numbers=lambda release, attempt: {**CALLS, "kernels": 2 if release < "2.6" else 4},
    )
    found = axis(tmp_path, provider, "kernels")
    (flip,) = found.versions.flips
    assert (flip.after, flip.at, flip.between) == ("2.5.0", "2.7.0", ("2.6.0",))
    row = next(row for row in found.versions.tested if row.torch == "2.6.0")
    assert row.verdict is Verdict.SKIP
    assert "does not end well" in row.why


@pytest.mark.parametrize(
    ("measures", "name", "value", "says"),
    [
        ({"calls": 2, "latency": 0.5}, "latency", 0.5, ""),
        ({"calls": 1, "latency": None}, "latency", None, "call it once more"),
        ({"calls": 2, "recompiles": None}, "recompiles", None, "does not report its recompilations"),
        ({"calls": 0}, "kernels", None, "no compiled region"),
        ({}, "kernels", None, "no compiled region"),
    ],
)
def test_the_number_of_a_run(measures: dict[str, Any], name: str, value: float | None, says: str) -> None:
    got, why = number(Outcome(status=Status.OK, facts={"measures": measures}), name)
    assert got == value
    assert says in why

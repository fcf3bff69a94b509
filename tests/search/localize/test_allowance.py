"""A search for the part at fault ends in the time that is given to it, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel_lab.core.findings import Findings
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.stages import Rung, Stage
from accel_lab.reporting.words.evidence import sentences
from accel_lab.search.diagnosis import Diagnosis, Options
from accel_lab.search.localize.allowance import LEAST_PLAIN_S, PLAIN_RUNS
from accel_lab.search.localize.kernel import MOST
from fakes_lab import FakeLab, failing, passing

OPS = [f"n{i} target=aten.op{i}.default#0" for i in range(40)]


def diagnose(seconds: float, question_s: float) -> tuple[Findings, int]:
    """A script of 40 operators, three of which it takes to fail, and how often some were left out."""

    def answer(probe: Probe) -> Outcome | None:
        off = dict(probe.switches).get("off", {}).get("lowerings", [])
        left = {"n3", "n20", "n33"} - {key.split(" ")[0] for key in (OPS if off == "all" else off)}
        bad = probe.rung is Rung.KERNEL and len(left) == 3
        outcome = failing() if bad else passing()
        took = seconds if probe.bare or probe.cold else question_s if off else 1.0
        return replace(outcome, seconds=took, facts={} if probe.bare else lab.facts, warm=not probe.bare)

    lab = FakeLab(fault=Rung.KERNEL, answer=answer)
    lab.facts = {**lab.facts, "applied": {"lowerings": OPS}}
    found = Diagnosis(lab, Probe(program=Program(path="/x/s.py")), Options(witness=False)).run()
    asked = [p for p in lab.asked if isinstance(dict(p.switches).get("off", {}).get("lowerings"), list)]
    return found, len(asked)


@pytest.mark.parametrize(
    ("plain_s", "question_s", "most"),
    [
        (1.0, 1.0, MOST),
        (60.0, 60.0, PLAIN_RUNS),
        (600.0, 300.0, 2 * PLAIN_RUNS),
        (1.0, LEAST_PLAIN_S, PLAIN_RUNS),
    ],
)
def test_the_search_ends_when_its_time_is_spent(plain_s: float, question_s: float, most: int) -> None:
    found, asked = diagnose(plain_s, question_s)
    assert asked == most
    assert found.culprit is not None and found.culprit.stage is Stage.CODEGEN
    told = [line for line in sentences(found.culprit.evidence) if "untested parts are not ruled out" in line]
    assert len(told) == (most < MOST)

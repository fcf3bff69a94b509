"""The wrapper around what torch.compile is given: told from a failure of the script by leaving it out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.execution.prober import Prober
from accel_lab.reporting.words.evidence import sentences
from accel_lab.search.alternatives.wrapper import IDENTITY
from accel_lab.search.diagnosis import Diagnosis
from fakes_lab import FakeLab, failing, passing

PROBE = Probe(program=Program(path="/x/script.py", sha256="0"))


class WrapperLab(FakeLab):
    """Everything fails but an identity that is one."""

    wraps = "module"
    cured = True

    def _outcome(self, probe: Probe) -> Outcome:
        regions = [{"id": 0, "name": "f", "backend": "inductor", "wraps": self.wraps}] if self.wraps else []
        facts = {} if probe.bare else {"regions": regions, "applied": {}}
        if self.cured and dict(probe.switches).get("identity"):
            return passing(facts=facts)
        return failing(facts=facts)


@pytest.mark.parametrize(
    ("wraps", "name"),
    [
        ("module", "OptimizedModule"),
        ("method", "Module.compile"),
        ("function", "_TorchDynamoContext.__call__"),
    ],
)
def test_what_passes_without_the_wrapper_is_the_wrappers(wraps: str, name: str) -> None:
    lab = WrapperLab()
    lab.wraps = wraps
    culprit = Diagnosis(lab, PROBE).run().culprit
    assert culprit is not None and culprit.component is not None
    assert (culprit.stage, culprit.confidence) == (Stage.DYNAMO, Confidence.PROVEN)
    assert (culprit.component.kind, culprit.component.name) == ("wrapper", name)
    assert any(
        "passes when torch.compile returns its argument" in line for line in sentences(culprit.evidence)
    )


def test_what_fails_without_the_wrapper_too_is_the_scripts() -> None:
    lab = WrapperLab()
    lab.cured = False
    culprit = Diagnosis(lab, PROBE).run().culprit
    assert culprit is not None and culprit.stage is Stage.EAGER


def test_where_nothing_was_wrapped_nothing_is_asked() -> None:
    lab = WrapperLab()
    lab.wraps = ""
    culprit = Diagnosis(lab, PROBE).run().culprit
    assert culprit is not None and culprit.stage is Stage.EAGER
    assert not any(probe.switches == IDENTITY for probe in lab.asked)


SAME = """
import torch
from torch import nn

class Net(nn.Linear):
    pass

net = Net(1, 1)
state = dict(vars(net))
net.compile()
assert vars(net) == state, vars(net)
assert net(torch.ones(1)).shape == (1,)
assert torch.compile(net) is net
assert list(net.state_dict()) == ["weight", "bias"]

def f(x):
    return x + 1

assert torch.compile(f) is f and torch.compile(f, backend="eager") is f

@torch.compile(fullgraph=True)
def g(x):
    return x

assert type(g) is type(f) and not hasattr(g, "__wrapped__")
"""


@pytest.mark.torch
@pytest.mark.parametrize("cold", [False, True], ids=["warm", "cold"])
def test_with_the_switch_torch_compile_returns_its_argument(
    prober: Prober, tmp_path: Path, cold: bool
) -> None:
    path = tmp_path / "script.py"
    path.write_text(SAME)
    program = Program(path=str(path), sha256=str(tmp_path))
    probe = Probe(program=program, limits=Limits(timeout_s=120.0), rung=Rung.UNCOMPILED, cold=cold)
    outcome = prober.ask(replace(probe, switches=IDENTITY))
    assert outcome.status is Status.OK, outcome.raised
    assert prober.ask(probe).status is Status.EXCEPTION

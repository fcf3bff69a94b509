"""What fails in torch.export, AOTInductor or TorchScript is told as such, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accel_lab.cli.finish import exit_code
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.probe import Limits, Probe, Program
from accel_lab.core.stages import Rung
from accel_lab.execution.prober import Prober
from accel_lab.reporting.words.summary import next_steps, summarise
from accel_lab.search.alternatives.outside_ladder import detect
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.diagnosis import Diagnosis
from fakes_lab import FakeLab, failing

PROBE = Probe(program=Program(path="/x/script.py", sha256="0"))
PACKAGE = "torch._inductor.aoti_compile_and_package"
USER = Frame(file="/x/script.py", line=3, function="main")
WRAPPER = Frame(file="torch/_inductor/codegen/wrapper.py", line=9, function="codegen_free")


def entry(name: str = PACKAGE, **changes: Any) -> dict[str, Any]:
    row = {"name": name, "calls": 1, "by_user": True, "running": 0, "raised": None, "ended": False}
    return {**row, **changes}


def lab_of(outcome: Outcome) -> FakeLab:
    """Every run ends so, a plain one without facts."""
    return FakeLab(answer=lambda probe: replace(outcome, facts={}) if probe.bare else outcome)


def told(outcome: Outcome) -> str | None:
    return detect(BaselineSearch(lab_of(outcome), PROBE).run())


def raising(
    message: str = "boom", kind: str = "KeyError", *, at: tuple[Frame, ...] = (), **facts: Any
) -> Outcome:
    raised = Raised(type=kind, message=message, frames=(USER, *at))
    return replace(failing(), raised=raised, facts=facts)


def test_the_entry_that_the_failure_passed_through_is_named_and_nothing_more_is_run() -> None:
    rows = [entry("torch.export.export"), entry(ended=True)]
    outcome = raising("'buf1'", at=(WRAPPER,), other_entries=rows)
    lab = lab_of(outcome)
    found = Diagnosis(lab, PROBE).run()
    assert found.outside == f"it fails in {PACKAGE} (torch/_inductor/codegen/wrapper.py:9, codegen_free)"
    assert (found.verdict, found.culprits, exit_code(found)) == ("inconclusive", [], 125)
    assert [(probe.rung, probe.bare) for probe in lab.asked] == [(Rung.KERNEL, True), (Rung.KERNEL, False)]
    said = summarise(found)
    assert said.startswith("This is outside what the lab can bisect: it fails in torch._inductor.aoti_")
    assert "KeyError: 'buf1'" in said and not any("--cold" in step for step in next_steps(found))


REGION = {"id": 0, "name": "f", "backend": "inductor", "calls": 1}


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (raising(other_entries=[entry("torch.jit.script", by_user=False)]), "a library scripts"),
        (raising(other_entries=[entry(raised=["KeyError", "boom"])]), "an exception that was handled"),
        (
            raising(at=(Frame(file="torch/export/x.py", line=1, function="f"),), other_entries=[entry()],
                    caught=[{"region": 0}], regions=[REGION]),
            "it came out of a region",
        ),
        (raising(kind="AssertionError", other_entries=[entry("torch.jit.script")]), "a check of its own"),
        (
            raising(kind="AssertionError", other_entries=[entry()], regions=[REGION]),
            "what it checks may come from the region",
        ),
        (raising(), "none was called"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_to_use_an_entry_is_not_to_fail_in_it(outcome: Outcome, why: str) -> None:
    assert told(outcome) is None


def test_what_an_entry_has_made_can_fail_when_it_is_run() -> None:
    scripted = raising("The following operation failed in the TorchScript interpreter.\n", "RuntimeError",
                       other_entries=[entry("torch.jit.script")])  # fmt: skip
    assert told(scripted) == "it fails in a function that torch.jit has compiled"
    checks = Frame(file="torch/_export/utils.py", line=7, function="_check_input")
    exported = raising(kind="RuntimeError", at=(checks,), other_entries=[entry("torch.export.export")])
    assert told(exported) == (
        "it fails in what torch.export has made (torch/_export/utils.py:7, _check_input)"
    )
    wrong = raising(kind="AssertionError", other_entries=[entry()])
    assert told(wrong) == f"it checks code that was compiled by {PACKAGE}"


def test_a_process_that_ends_in_an_entry_was_in_it() -> None:
    died = Outcome(
        status=Status.SIGNAL,
        signal=11,
        raised=Raised(type="SIGSEGV", message="", frames=(USER, WRAPPER)),
        facts={"other_entries": [entry("torch.export.export"), entry(running=1)]},
    )
    assert told(died) == f"it fails in {PACKAGE} (torch/_inductor/codegen/wrapper.py:9, codegen_free)"


def test_hostile_facts_say_nothing() -> None:
    assert told(raising(other_entries=[3, {"ended": "yes"}, {"name": ["x"], "raised": 5}])) is None
    assert told(raising(other_entries="x")) is None


EXPORT = """
import sys
import torch

@torch.jit.script
class Pair:
    def __init__(self, a: torch.Tensor):
        self.a = a

f = torch.compile(lambda x: x + 1, backend="eager")
f(torch.ones(3))
"""
ENDS = {
    "raises": "torch.export.export(torch.nn.Module(), (torch.ones(3),))\n",
    "gives up": "try:\n    torch.export.export(torch.nn.Module(), (torch.ones(3),))\n"
    "except Exception:\n    sys.exit('no export')\n",
    "goes on": "try:\n    torch.export.export(torch.nn.Module(), (torch.ones(3),))\n"
    "except Exception:\n    f(torch.ones(4))\n    sys.exit('wrong numbers')\n",
    "fails elsewhere": "try:\n    torch.export.export(torch.nn.Module(), (torch.ones(3),))\n"
    "except Exception:\n    pass\nraise KeyError('x')\n",
}


@pytest.mark.torch
@pytest.mark.parametrize(("end", "through"), [("raises", True), ("gives up", True), ("goes on", False),
                                              ("fails elsewhere", False)])  # fmt: skip
def test_the_child_tells_what_the_end_passed_through(
    prober: Prober, tmp_path: Path, end: str, through: bool
) -> None:
    path = tmp_path / "script.py"
    path.write_text(EXPORT + ENDS[end])
    probe = Probe(program=Program(path=str(path), sha256=str(tmp_path)), limits=Limits(timeout_s=120.0))
    outcome = prober.ask(probe)
    rows = {row["name"]: row for row in outcome.facts["other_entries"]}
    assert rows["torch.jit.script"]["by_user"] and rows["torch.jit.script"]["raised"] is None
    export = rows["torch.export.export"]
    assert export["raised"] is not None and export["running"] == 0
    assert export["ended"] is through

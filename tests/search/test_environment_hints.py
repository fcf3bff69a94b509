"""What is read from the exception of a run: whether the operating system, not torch, is to blame."""

from __future__ import annotations

import pytest

from accel_lab.core.findings import Step
from accel_lab.core.outcome import Frame, Outcome, Raised, Status
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import environment_hints, frames
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.premise import Baseline
from fakes_lab import PROBE, FakeLab

SCRIPT = Frame(file="/x/script.py", line=3, function="train")
CACHE = Frame(file="torch/_inductor/runtime/cache_dir_utils.py", line=20, function="cache_dir")
LIBRARY = Frame(file="<frozen os>", line=225, function="makedirs")
NOT_A_FOLDER = "[Errno 20] Not a directory: '/x/cache/user'"


def failed(kind: str, message: str, *where: Frame) -> Outcome:
    raised = Raised(type=kind, message=message, frames=where)
    return Outcome(status=Status.EXCEPTION, exit_code=1, raised=raised)


@pytest.mark.parametrize(
    ("kind", "message", "where", "name"),
    [
        ("NotADirectoryError", NOT_A_FOLDER, (SCRIPT, CACHE, LIBRARY), "Not a directory"),
        ("FileExistsError", "[Errno 17] File exists: '/x'", (SCRIPT, CACHE, LIBRARY), "File exists"),
        ("OSError", "[Errno 27] File too large", (SCRIPT,), "File too large"),
        ("NotADirectoryError", NOT_A_FOLDER, (SCRIPT, LIBRARY), None),
        ("ValueError", "bad", (SCRIPT, CACHE), None),
    ],
    ids=["a file in the way", "a file of that name", "a limit", "the script's own", "no system error"],
)
def test_what_the_system_refuses_an_uncompiled_run(
    kind: str, message: str, where: tuple[Frame, ...], name: str | None
) -> None:
    culprit = environment_hints.of_script(failed(kind, message, *where))
    assert (culprit is not None) is (name is not None)
    if culprit is not None:
        assert culprit.stage is Stage.ENVIRONMENT and culprit.component is not None
        assert culprit.component.name == name


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (f"NotADirectoryError: {NOT_A_FOLDER}", True),
        ("PermissionError: [Errno 13] Permission denied: '/x/cache'", True),
        # Two processes that make one file, or a name that Inductor made too long: those may be torch's own.
        ("FileExistsError: [Errno 17] File exists: '/x/cache'", False),
        ("OSError: [Errno 36] File name too long: 'cpp_fused'", False),
    ],
)
def test_what_the_system_refuses_the_compiler(message: str, found: bool) -> None:
    lab = FakeLab()
    runner = LadderRunner(lab=lab, probe=PROBE, baseline=Baseline())
    outcome = failed("InductorError", message, SCRIPT, CACHE, LIBRARY)
    top = Step(rung=Rung.KERNEL, verdict=Verdict.BAD, outcome=outcome)
    assert (environment_hints.detect(lab, runner, top) is not None) is found


def test_the_innermost_frame_is_not_one_of_pythons_library() -> None:
    library = Frame(file="/usr/lib/python3.11/json/decoder.py", line=3, function="decode")
    package = Frame(file="/usr/lib/python3.11/site-packages/numpy/core.py", line=3, function="asarray")
    raised = Raised(type="E", message="", frames=(SCRIPT, library, LIBRARY))
    assert frames.innermost_outside_library(raised) == SCRIPT
    raised = Raised(type="E", message="", frames=(SCRIPT, package, LIBRARY))
    assert frames.innermost_outside_library(raised) == package
    assert frames.innermost_outside_library(Raised(type="E", message="")) is None

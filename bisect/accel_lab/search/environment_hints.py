"""Faults of the surroundings: a missing module or file, a full disk, no working C++ compiler."""

from __future__ import annotations

from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .climb import Climber
from .lab import Lab

_SCRIPT_FAULTS = {
    "ModuleNotFoundError": ("module", "a module that the script imports is not installed"),
    "FileNotFoundError": ("file", "a file that the script opens does not exist"),
    "PermissionError": ("file", "a file may not be read or written"),
}
_COMPILER_WORDS = ("InvalidCxxCompiler", "CppCompileError", "No working C++ compiler", "C++ compile error")


def of_script(outcome: Outcome) -> Culprit | None:
    """What an uncompiled run says about its surroundings, if that is what it failed of."""
    raised = outcome.raised
    if raised is None:
        return None
    kind = raised.type.rsplit(".", 1)[-1]
    if "No space left on device" in raised.message:
        return _culprit("disk", "full", raised.message, "there is no space left on the device")
    if kind not in _SCRIPT_FAULTS:
        return None
    what, words = _SCRIPT_FAULTS[kind]
    return _culprit(what, shorten(raised.message, 120), raised.message, words)


def _culprit(kind: str, name: str, detail: str, words: str) -> Culprit:
    return Culprit(
        stage=Stage.ENVIRONMENT,
        confidence=Confidence.LIKELY,
        component=Component(kind=kind, name=name, detail=shorten(detail, 300)),
        evidence=(words,),
    )


def look(lab: Lab, climber: Climber, top: Step) -> Culprit | None:
    """Whether the failing run itself points at its surroundings: a full disk or the C++ compiler."""
    raised = top.outcome.raised
    text = f"{raised.type}: {raised.message}" if raised is not None else ""
    if "No space left on device" in text:
        return of_script(top.outcome)
    if "Python.h: No such file" in text:
        words = "the headers of Python are missing, which every generated kernel includes (python3-dev)"
        return _culprit("headers", "Python.h", text, words)
    if not any(word in text for word in _COMPILER_WORDS):
        return None
    works, said = lab.compiler_works()
    if works:
        return None
    below = climber.one(Rung.UNCOMPILED)
    return Culprit(
        stage=Stage.ENVIRONMENT,
        confidence=Confidence.PROVEN if below.verdict is Verdict.GOOD else Confidence.LIKELY,
        component=Component(kind="compiler", name="C++ compiler", detail=shorten(said, 300)),
        evidence=(
            f"the C++ compiler cannot build even an empty library: {said}",
            "without generated kernels the script passes"
            if below.verdict is Verdict.GOOD
            else "the script fails without generated kernels too",
        ),
    )

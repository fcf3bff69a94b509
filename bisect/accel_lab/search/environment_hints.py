"""Recognises faults of the environment: a missing module or file, a full disk, a limit, no C++ compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.outcome import Outcome, Raised
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from . import frames
from .lab import Lab
from .ladder_runner import LadderRunner, tally_of
from .proof import Proof, prove_again

_SCRIPT_FAULTS = {
    "ModuleNotFoundError": ("module", Evidence.of(EvidenceKind.MODULE_MISSING)),
    "FileNotFoundError": ("file", Evidence.of(EvidenceKind.FILE_MISSING)),
    "PermissionError": ("file", Evidence.of(EvidenceKind.FILE_FORBIDDEN)),
}
#: What the operating system says when it refuses to write: RLIMIT_FSIZE, a quota, a read-only mount.
#: Inductor wraps it: "InductorError: OSError: [Errno 27] File too large".
_REFUSED = re.compile(r"OSError: \[Errno \d+\] (File too large|Disk quota exceeded|Read-only file system)")
#: What it says of a folder that torch is to use, for its caches for instance, and cannot.
_REFUSED_TO_TORCH = re.compile(
    r"Error: \[Errno \d+\] (Not a directory|Permission denied|Operation not permitted|Input/output error)"
)
#: The same with whatever reason, where nothing is compiled.
_SYSTEM_ERROR = re.compile(r"Error: \[Errno \d+\] ([^:]+)")
#: Messages of torch when none of the configured compilers could be started.
_NO_COMPILER = ("InvalidCxxCompiler", "No working C++ compiler")
_COMPILER_WORDS = (*_NO_COMPILER, "CppCompileError", "C++ compile error")


def of_script(outcome: Outcome) -> Culprit | None:
    """Returns the environment fault by which an uncompiled run failed, or None."""
    raised = outcome.raised
    if raised is None:
        return None
    if culprit := _not_written(raised):
        return culprit
    kind = raised.type.rsplit(".", 1)[-1]
    if kind in _SCRIPT_FAULTS:
        what, fault = _SCRIPT_FAULTS[kind]
        return _culprit(what, shorten(raised.message, 120), raised.message, fault)
    said = _SYSTEM_ERROR.search(_line(raised)) if frames.raised_by_torch(raised) else None
    if said is None:
        return None
    return _culprit("error", said[1], raised.message, Evidence.of(EvidenceKind.SYSTEM_REFUSED))


def _not_written(raised: Raised) -> Culprit | None:
    """Returns the fault if a file could not be written, whatever was compiled."""
    if "No space left on device" in raised.message:
        return _culprit("disk", "full", raised.message, Evidence.of(EvidenceKind.DISK_FULL))
    refused = _REFUSED.search(_line(raised))
    if refused is None and frames.raised_by_torch(raised):
        refused = _REFUSED_TO_TORCH.search(_line(raised))
    if refused is None:
        return None
    return _culprit("error", refused[1], raised.message, Evidence.of(EvidenceKind.WRITE_REFUSED))


def _line(raised: Raised) -> str:
    return f"{raised.type.rsplit('.', 1)[-1]}: {raised.message}"


def _culprit(kind: str, name: str, detail: str, fault: Evidence) -> Culprit:
    return Culprit(
        stage=Stage.ENVIRONMENT,
        confidence=Confidence.LIKELY,
        component=Component(kind=kind, name=name, detail=shorten(detail, 300)),
        evidence=(fault,),
    )


@dataclass(frozen=True, kw_only=True)
class EnvironmentFault:
    """An environment fault: the culprit, the rows that show it, and the proof, if there is a pair."""

    culprit: Culprit
    ladder: list[Step]
    proof: Proof | None = None


def detect(lab: Lab, runner: LadderRunner, top: Step, plain: Step | None = None) -> EnvironmentFault | None:
    """Returns the environment fault that the failing run shows (disk, headers, compiler), or None.

    What is refused to the script is refused to the lab's own records in its process too: if the failing run
    ended without any, ``plain``, the same script's plain run, is read instead.
    """
    raised = top.outcome.raised
    text = f"{raised.type}: {raised.message}" if raised is not None else ""
    seen = top if raised is not None or plain is None else plain
    refused = _not_written(seen.outcome.raised) if seen.outcome.raised is not None else None
    if refused is not None:
        return EnvironmentFault(culprit=refused, ladder=[top])
    if "Python.h: No such file" in text:
        fault = Evidence.of(EvidenceKind.PYTHON_HEADERS_MISSING)
        return EnvironmentFault(culprit=_culprit("headers", "Python.h", text, fault), ladder=[top])
    if not any(word in text for word in _COMPILER_WORDS):
        return None
    works, message = lab.compiler_works()
    broken = Evidence.of(EvidenceKind.COMPILER_BROKEN, message=message)
    if works and not any(word in text for word in _NO_COMPILER):
        return None
    if works:  # the script names another compiler than its environment
        message = next(line for line in text.splitlines() if any(word in line for word in _NO_COMPILER))
        broken = Evidence.of(EvidenceKind.COMPILER_NOT_FOUND, message=shorten(message, 200))
    # The next lower rung differs only by the generated kernels and needs no native compiler.
    below = runner.one(Rung.FX)
    component = Component(kind="compiler", name="C++ compiler", detail=shorten(message, 300))
    evidence = [broken]
    if below.verdict is not Verdict.GOOD:
        evidence.append(Evidence.of(EvidenceKind.FAILS_WITHOUT_KERNELS))
        culprit = Culprit(stage=Stage.ENVIRONMENT, confidence=Confidence.LIKELY, component=component)
        return EnvironmentFault(culprit=replace(culprit, evidence=tuple(evidence)), ladder=[below, top])
    top = runner.repeat(top, 1, "proof")
    premise = runner.baseline.alternatives
    below, proof = prove_again(runner, top, below, tally_of([top]), alternatives=premise)
    evidence.append(
        Evidence.of(
            EvidenceKind.PASSES_WITHOUT_KERNELS,
            passes=below.runs - below.failures,
            passing_runs=below.runs,
            failures=top.failures,
            runs=top.runs,
        )
    )
    culprit = Culprit(
        stage=Stage.ENVIRONMENT,
        confidence=proof.confidence,
        component=replace(component, confidence=proof.confidence),
        evidence=tuple(evidence),
    )
    return EnvironmentFault(culprit=culprit, ladder=[below, top], proof=proof)

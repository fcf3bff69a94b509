"""Recognises faults of the environment: a missing module or file, a full disk, a limit, no C++ compiler."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

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
_NOT_WRITTEN = (EvidenceKind.DISK_FULL, EvidenceKind.WRITE_REFUSED)
#: Messages of torch when none of the configured compilers could be started.
_NO_COMPILER = ("InvalidCxxCompiler", "No working C++ compiler")
_COMPILER_WORDS = (*_NO_COMPILER, "CppCompileError", "C++ compile error")


def of_script(outcome: Outcome) -> Culprit | None:
    """Returns the environment fault by which an uncompiled run failed, or None."""
    raised = outcome.raised
    if raised is None:
        return None
    kind = raised.type.rsplit(".", 1)[-1]
    if "No space left on device" in raised.message:
        return _culprit("disk", "full", raised.message, Evidence.of(EvidenceKind.DISK_FULL))
    if refused := _REFUSED.search(f"{kind}: {raised.message}"):
        return _culprit("error", refused[1], raised.message, Evidence.of(EvidenceKind.WRITE_REFUSED))
    if kind not in _SCRIPT_FAULTS:
        return None
    what, fault = _SCRIPT_FAULTS[kind]
    return _culprit(what, shorten(raised.message, 120), raised.message, fault)


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
    refused = of_script(seen.outcome)
    if refused is not None and refused.evidence[0].kind in _NOT_WRITTEN:
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

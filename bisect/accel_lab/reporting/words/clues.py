"""Finds clues that need no run of their own: which tests fail, and numbers that vary between runs."""

from __future__ import annotations

from collections.abc import Sequence

from accel_lab.core.findings import Findings, Step
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict

#: Minimum failing rungs, each with other numbers, before that is reported.
_RUNGS = 3


def names_tests(signature: Signature | None) -> bool:
    """Whether the failure is reported as failing tests of a test runner."""
    return signature is not None and signature.kind == "exit" and ".py" in signature.said.split(" ", 1)[0]


def numbers(findings: Findings) -> str:
    """Says what it means if one message has other numbers each time; empty if they are equal.

    Numbers are not part of a signature, so such failures count as one.
    """
    target = findings.signature
    if target is None or target.kind not in ("exception", "exit"):
        return ""
    steps = [s for s in (*findings.baseline, *findings.ladder) if s.verdict is Verdict.BAD]
    draws = any(step.outcome.facts.get("random") is True for step in steps)
    own = {said for _, said in _said(findings.baseline, target)}
    if len(own) > 1:
        more = ", and the compiled code draws such" if draws else ""
        return (
            "The numbers in its message differ from run to run though nothing was changed between them: "
            f"random numbers{more}, uninitialised memory or a race may be involved."
        )
    by_rung = dict(_said(findings.ladder, target))
    if draws and len(by_rung) >= _RUNGS and len(set(by_rung.values())) == len(by_rung):
        return (
            f"The numbers in its message differ at each of the {len(by_rung)} rungs that fail, and the "
            "compiled code draws random numbers: different random numbers may explain the failure."
        )
    return ""


def _said(steps: Sequence[Step], target: Signature) -> list[tuple[Rung, str]]:
    """Returns the messages of failing runs that equal ``target``'s but for numbers."""
    return [
        (step.rung, step.signature.said)
        for step in steps
        if step.verdict is Verdict.BAD and step.signature and step.signature.message == target.message
    ]

"""expected.json: what a re-run of the bundle is compared with, as data that needs no accel-lab."""

from __future__ import annotations

import math
from typing import Any

from accel_lab.core import signature as signatures
from accel_lab.core.findings import Findings, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.verdict import Verdict

from . import words

_PATIENCE_S = 600.0
_MAX_ATTEMPTS = 40


def expectation(findings: Findings) -> dict[str, Any]:
    """How the failing run ended."""
    step = _shown_by(findings)
    outcome = step.outcome if step is not None else Outcome(status=Status.OK, exit_code=0)
    signature = findings.signature or (step.signature if step else None)
    values = signature is not None and signature.kind == "values"
    status = outcome.status
    torch, python = words.build_of(findings)
    kind, message = "", ""
    if outcome.raised is not None:
        kind, message = outcome.raised.type, outcome.raised.message
    elif signature is not None:
        kind, message = signature.type, signature.message
    failure = signature.line if signature is not None else "it does not fail"
    # The stand-in for ``-m module`` has its arguments inside, a reduced script needs none.
    plain_script = findings.repro is None and findings.program.path is not None
    # A reduced script checks its own numbers and fails by itself, in whichever way its check says so.
    return {
        "status": status.value,
        "exit_code": outcome.exit_code if status in (Status.OK, Status.EXIT) else None,
        "signal": outcome.signal,
        "type": kind,
        "message": signatures.normalise(message),
        "failure": failure,
        "any_failure": findings.repro is not None and (values or status is Status.OK),
        "compare_values": values and findings.repro is None,
        "args": list(findings.program.args) if plain_script else [],
        "attempts": attempts_for(findings.failure_rate),
        "timeout_s": _timeout(outcome),
        "torch": torch,
        "python": python,
    }


def message_rules() -> dict[str, Any]:
    """What ``signature.normalise`` does to a message, as data: patterns, and what takes their place."""
    return {
        "advice": signatures._ADVICE.pattern,
        "rules": [[pattern.pattern, text] for pattern, text in signatures._RULES],
    }


def attempts_for(failure_rate: float | None) -> int:
    """How many tries see a failure of that rate at least once in 99 of 100 cases; two at least."""
    if failure_rate is None or failure_rate >= 1:
        return 1
    if failure_rate <= 0:
        return _MAX_ATTEMPTS
    return min(max(2, math.ceil(math.log(0.01) / math.log(1 - failure_rate))), _MAX_ATTEMPTS)


def _shown_by(findings: Findings) -> Step | None:
    """The run that shows the failure as a user would see it: the plain one before the instrumented."""
    for step in findings.baseline:
        if step.verdict is Verdict.BAD:
            return step
    return words.first_bad(findings) or (findings.baseline[0] if findings.baseline else None)


def _timeout(outcome: Outcome) -> float:
    """A hang is waited for as long as the lab did; anything else gets ample time."""
    if outcome.status is Status.TIMEOUT:
        return max(round(outcome.seconds, 1), 10.0)
    return max(_PATIENCE_S, round(outcome.seconds * 10, 1))

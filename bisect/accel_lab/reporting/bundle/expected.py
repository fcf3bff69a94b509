"""Builds expected.json: what a re-run of the bundle is compared with, as data that needs no accel-lab."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from accel_lab.core import judge as judges
from accel_lab.core import signature as signatures
from accel_lab.core.findings import Findings, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.private import HIDDEN
from accel_lab.core.signature import Signature
from accel_lab.core.verdict import Verdict
from accel_lab.reporting.repro_reader import Reduced
from accel_lab.reporting.words import terms

_PATIENCE_S = 600.0
_MAX_ATTEMPTS = 40


def expectation(
    findings: Findings,
    repro: Reduced | None = None,
    publish: Callable[[str], str] = signatures.normalise,
    *,
    args: Sequence[str] | None = None,
    printed: str = "",
) -> dict[str, Any]:
    """Returns how the failing run ended; ``repro`` is the reduced script, if that is what is run again.

    ``publish`` turns a message into one that may be published and compared (see :meth:`Redactor.message`).
    ``printed`` is the failing run's output, which lists failed tests. ``args`` replace the program's
    arguments.
    """
    step = shown_by(findings)
    outcome = step.outcome if step is not None else Outcome(status=Status.OK, exit_code=0)
    signature = findings.signature or (step.signature if step else None)
    values = signature is not None and signature.kind == "values"
    # The program caught the exception, printed it and exited: only instrumented runs know the exception.
    caught = outcome.status is Status.EXCEPTION and signature is not None and signature.kind == "exit"
    status = Status.EXIT if caught else outcome.status
    torch, python = terms.build_of(findings)
    kind, message = "", ""
    if outcome.raised is not None:
        kind, message = outcome.raised.type, outcome.raised.message
    elif signature is not None:
        kind, message = signature.type, signature.message
    failure = signature.line if signature is not None else "it does not fail"
    expected = {
        "status": status.value,
        "exit_code": outcome.exit_code if status in (Status.OK, Status.EXIT) else None,
        "signal": outcome.signal,
        "signals": _signals(signature, outcome.signal),
        "type": kind,
        "message": publish(message),
        "failure": failure,
        "inner": "",
        "printed": caught,
        "type_only": False,
        "code_only": False,
        "compare_values": values,
        "tests": failing_tests(printed) if status is Status.EXIT else [],
        "args": list(findings.program.args if args is None else args),
        "attempts": attempts_for(findings.failure_rate),
        "timeout_s": _timeout(outcome),
        "environment": portable_variables(findings),
        "accelerator": accelerator_of(findings),
        "torch": torch,
        "python": python,
    }
    if repro is None:
        return expected
    changed = _of_reduced(repro, signature, outcome, publish)
    return {**expected, "tests": [], **changed, **({} if args is None else {"args": list(args)})}


def failing_tests(printed: str) -> list[str]:
    """Returns the names of failed tests in a test runner's output; empty if it lists none."""
    return sorted({match["test"] for match in judges.PYTEST_FAILURE.finditer(printed)})


def _signals(signature: Signature | None, number: int | None) -> list[int]:
    """Returns the signals that count as the same failure: a memory fault varies with the heap."""
    if signature is not None and signature.kind == "memory_fault":
        return [6, 7, 11]  # SIGABRT, SIGBUS, SIGSEGV
    return [] if number is None else [number]


def _of_reduced(
    repro: Reduced, signature: Signature | None, outcome: Outcome, publish: Callable[[str], str]
) -> dict[str, Any]:
    """Returns what differs for a reduced script: how it ended when the lab ran it.

    It raises the same exception inside whatever wraps it. A script for wrong numbers contains a check, unless
    none could be added.
    """
    changed: dict[str, Any] = {"args": list(repro.args)}
    kind = signature.kind if signature is not None else ""
    if repro.end is None:
        return changed  # judged by its status, as a hang is
    how, number = repro.end
    if kind == "memory" or (kind in ("timeout", "output", "processes", "disk") and how == "signal"):
        return changed  # the lab or the system ended it
    if how == "signal":
        signals = {"signal": number, "signals": _signals(signature, number)}
        return {**changed, **signals, "status": Status.SIGNAL.value, "compare_values": False}
    if number == 0:
        return {**changed, "status": Status.OK.value, "exit_code": 0}
    changed["compare_values"] = False
    if kind == "values":
        # The check raises, or sets an exit code that only the uncompiled function avoids.
        check = {"type": "AssertionError", "message": "", "type_only": True}
        return {**changed, **check, "status": Status.EXCEPTION.value, "exit_code": number}
    if kind == "exception" and signature is not None and outcome.status is Status.EXCEPTION:
        return {**changed, "inner": f"{signature.type}: {signature.message}"}
    # A hang exits by itself after a while; a user's oracle judges only the exit code.
    patience = {"timeout_s": _PATIENCE_S} if kind == "timeout" else {}
    return {**changed, **patience, "status": Status.EXIT.value, "exit_code": number, "code_only": True}


def accelerator_of(findings: Findings) -> str:
    """Returns the accelerator that every compiled region ran on; empty if there is none."""
    asked = findings.environment.get("accelerator")
    return str(asked.get("name") or "") if isinstance(asked, dict) else ""


def portable_variables(findings: Findings) -> dict[str, str]:
    """Returns the variables that configured torch or the accelerator, which a re-run needs too.

    Variables with a path are left out: they mean nothing on another machine.
    """
    asked = findings.environment.get("accelerator")
    variables = findings.environment.get("variables") or {}
    variables = {**variables, **(asked.get("variables") or {} if isinstance(asked, dict) else {})}
    return {
        name: str(value)
        for name, value in sorted(variables.items())
        if os.sep not in str(value) and not name.endswith(("_DIR", "_PATH", "_HOME"))
    }


def message_rules() -> dict[str, Any]:
    """Returns the rules of ``signature.normalise`` as data: patterns and their replacements.

    A hole in the expected message marks redacted text: the re-run may print anything there.
    """
    return {
        "advice": signatures._ADVICE.pattern,
        "rules": [[pattern.pattern, text] for pattern, text in signatures._RULES],
        "test": judges.PYTEST_FAILURE.pattern,
        "hole": HIDDEN,
    }


def attempts_for(failure_rate: float | None) -> int:
    """Returns how many tries show a failure of this rate with 99 % probability; 1 if it is constant."""
    if failure_rate is None or failure_rate >= 1:
        return 1
    if failure_rate <= 0:
        return _MAX_ATTEMPTS
    return min(max(2, math.ceil(math.log(0.01) / math.log(1 - failure_rate))), _MAX_ATTEMPTS)


def shown_by(findings: Findings) -> Step | None:
    """Returns the run that shows the failure as a user sees it: plain runs before instrumented ones."""
    for step in findings.baseline:
        if step.verdict is Verdict.BAD:
            return step
    return terms.first_bad(findings) or (findings.baseline[0] if findings.baseline else None)


def _timeout(outcome: Outcome) -> float:
    """Returns the time limit in seconds: for a hang the lab's own limit, otherwise ample time."""
    if outcome.status is Status.TIMEOUT:
        return max(round(outcome.seconds, 1), 10.0)
    return max(_PATIENCE_S, round(outcome.seconds * 10, 1))

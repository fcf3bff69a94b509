"""Derives the signature of an Outcome, and its Verdict against the target failure. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .outcome import Outcome, Raised, Status
from .signature import Signature, legible, normalise
from .text import shorten
from .verdict import Verdict

#: Exceptions that only wrap another one; whether a fault is wrapped depends on the rung.
_WRAPPERS = ("BackendCompilerFailed", "InductorError", "LoweringException")
_RAISED_BY_BACKEND = re.compile(r"^backend='[^']*' raised:\s*\n?", re.S)
_INNER = re.compile(r"^(?P<type>[A-Za-z_][\w.]*): ?(?P<message>.*)$", re.S)
#: Signals of invalid memory accesses. SIGABRT counts only if the allocator raised it.
_MEMORY_FAULTS = ("SIGSEGV", "SIGBUS")
#: A failed test in pytest's summary, with the message if it is printed.
PYTEST_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?P<test>[^\s\[]+(?:\[.*?\])?)(?: - (?P<message>.*))?$", re.M)
#: What torchrun raises. Its message (rank, exit code, time, process id) changes from run to run, so the
#: output of the ranks is compared instead.
_LAUNCHER = "ChildFailedError"
_RANK_FAILURE = re.compile(
    r"^(?P<rank>\[rank\d+\]: )?(?P<type>[A-Za-z_][\w.]{0,200}(?:Error|Exception))"
    r"(?:: (?P<message>.*))?$",
    re.M,
)
#: The number of failing tests that are named.
_TESTS = 3


def signature_of(outcome: Outcome, stdout_tail: str = "", stderr_tail: str = "") -> Signature | None:
    """Returns the signature of a failed run; None if it did not fail.

    The tails are the last parts of its output: test runners and the ranks of torchrun print their failures
    only there.
    """
    if not outcome.failed:
        return None
    raised = outcome.raised
    frames = _innermost(raised)
    if outcome.status is Status.EXCEPTION and raised is not None:
        kind, message = unwrap(raised)
        if kind == _LAUNCHER and stderr_tail:
            message = _of_ranks(stderr_tail)
        return Signature(
            kind="exception", type=kind, message=normalise(message), frames=frames, said=legible(message)
        )
    if outcome.status is Status.MEMORY:
        return Signature(kind="memory")
    if outcome.status is Status.SIGNAL:
        heap = str(outcome.facts.get("heap_check") or "")
        kind = _signal_type(outcome)
        if kind in _MEMORY_FAULTS or (kind == "SIGABRT" and heap):
            return Signature(kind="memory_fault", type=kind, frames=frames, said=legible(heap))
        return Signature(kind="signal", type=kind, frames=frames)
    if outcome.status is Status.EXIT:
        messages, tests = _exit_messages(outcome, stdout_tail)
        return Signature(
            kind="exit",
            type=f"exit {outcome.exit_code}",
            message=_joined(map(normalise, messages))[:400],
            frames=frames,
            said=_tests_said(tests, messages) if tests else shorten(_joined(map(legible, messages)), 400),
        )
    if outcome.status is Status.DISK:
        return Signature(kind="disk", said=next((note for note in outcome.notes if "--max-disk" in note), ""))
    return Signature(kind=outcome.status.value, frames=frames)


def judge(outcome: Outcome, target: Signature, signature: Signature | None) -> Verdict:
    """Returns GOOD, BAD (same signature), DIFFERENT (another failure) or SKIP (the script was not run)."""
    if not outcome.was_run:
        return Verdict.SKIP
    if signature is None:
        return Verdict.GOOD
    return Verdict.BAD if signature.same_as(target) else Verdict.DIFFERENT


def unwrap(raised: Raised) -> tuple[str, str]:
    """Returns ``(type, message)`` of the exception inside torch's wrappers; the type without its module."""
    kind, message = raised.type.rsplit(".", 1)[-1], raised.message
    for _ in range(4):
        if kind not in _WRAPPERS:
            break
        message = _RAISED_BY_BACKEND.sub("", message)
        inner = _INNER.match(message)
        if inner is None:
            break
        kind, message = inner["type"].rsplit(".", 1)[-1], inner["message"]
    return kind, message


def compiler_exceptions(outcome: Outcome) -> set[str]:
    """Returns the types of exceptions that left a region because the compiler itself failed.

    The script may have caught them. Exceptions of an operator during tracing are not included: they have
    another wrapper.
    """
    types = {str(one.get("type", "")).rsplit(".", 1)[-1] for one in outcome.facts.get("caught") or []}
    return types & {*_WRAPPERS, "InternalTorchDynamoError"}


def _innermost(raised: Raised | None) -> tuple[str, ...]:
    if raised is None:
        return ()
    return tuple(frame.function for frame in raised.frames[-3:])


def _signal_type(outcome: Outcome) -> str:
    import signal

    try:
        return signal.Signals(outcome.signal or 0).name
    except ValueError:
        return f"signal {outcome.signal}"


def _exit_messages(outcome: Outcome, stdout_tail: str) -> tuple[list[str], list[str]]:
    """The messages of a run that exited nonzero, and the failed tests if a test runner lists them."""
    raised = outcome.raised
    if raised is not None and raised.type == "SystemExit" and not raised.message.lstrip("-").isdigit():
        return ([raised.message] if raised.message not in ("", "None") else []), []
    found = list(PYTEST_FAILURE.finditer(stdout_tail))
    tests = [m["test"] for m in found]
    named = all("::" in test or test.endswith(".py") for test in tests)
    return [m["message"] or "" for m in found], tests if named else []


def _of_ranks(stderr: str) -> str:
    """The exceptions of the ranks, deduplicated: type and first line of the message.

    torch prefixes the lines of a rank that has joined a group. Without any prefixed line, all lines count.
    """
    lines = list(_RANK_FAILURE.finditer(stderr))
    said: dict[str, str] = {}
    for found in [line for line in lines if line["rank"]] or lines:
        kind, message = found["type"], found["message"] or ""
        if not kind.endswith(_LAUNCHER):
            said.setdefault(f"{kind}: {normalise(message)}", f"{kind}: {legible(message)}")
    return _joined(said.values())


def _tests_said(tests: Sequence[str], messages: Sequence[str]) -> str:
    """The failing tests with their messages, grouped by message."""
    by_message: dict[str, list[str]] = {}
    for test, message in zip(tests, messages, strict=True):
        by_message.setdefault(legible(message), []).append(test)
    parts = []
    for message, names in by_message.items():
        more = f" and {len(names) - _TESTS} more" if len(names) > _TESTS else ""
        fails = "fails" if len(names) == 1 else "fail"
        parts.append(", ".join(names[:_TESTS]) + more + f" {fails}" + (f" with {message}" if message else ""))
    return shorten("; ".join(parts), 600)


def _joined(messages: Iterable[str]) -> str:
    return "; ".join(sorted(set(messages)))

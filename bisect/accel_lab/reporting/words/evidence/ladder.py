"""Sentences on the ladder: the two rungs, the repeats, the premise, the script's environment."""

from __future__ import annotations

from accel_lab.core.evidence import EvidenceKind as Kind
from accel_lab.core.stages import Rung

from .template import Words, alike


def _rung_adds_failure(below: str, at: str, same: bool) -> str:
    return f"passes at {below} and fails {alike(same)} at {at}, which adds {Rung(at).record.adds}"


def _fails_uncompiled(same: bool) -> str:
    return (
        f"the script fails {alike(same)} when torch.compile is the identity, so no part of the compiler is "
        "needed for it"
    )


def _second_fault(regions: list[str]) -> str:
    return f"a second fault: it stays when the regions [{', '.join(regions)}] are kept on a rung that passes"


def _wrong_value(name: str, call: int, phase: str, path: str, how: str) -> str:
    """A negative ``call`` marks a value that belongs to no call of the region."""
    turn = f" call {call}" if call >= 0 else ""
    return f"{name}{turn} {phase} {path}: {how}"


def _state_left_behind(first: int, runs: int, later: int) -> str:
    rare = ", unless the failure is a rare one" if first == 1 else ""
    return (
        f"the first {first} of {runs} runs failed and none of the {later} after them: state left outside the "
        "script's folder by the first runs (a file, a cache, a database) keeps it from failing again"
        f"{rare}, so it cannot be bisected until every run starts from the same state"
    )


WORDS: dict[Kind, Words] = {
    Kind.SAID: "{text}",
    Kind.PASSES_AND_FAILS_AT: "passes at {below} and fails at {at}",
    Kind.RUNG_ADDS_FAILURE: _rung_adds_failure,
    Kind.INNERMOST_FRAME: "the innermost frame lies in {file} ({function})",
    Kind.PAIR_REPEATED: (
        "run again: {below} passed {passes} of {passes} runs, {at} failed {failures} of {runs}"
    ),
    Kind.PAIR_CHOSEN_AFTERWARDS: "{below} passed {passes} of {passes} runs; {at} failed {failures} times",
    Kind.FAILS_UNCOMPILED: _fails_uncompiled,
    Kind.SECOND_FAULT: _second_fault,
    Kind.NO_SECOND_FAULT: (
        "with only the failing region kept below that stage, and all others compiled, the script passes"
    ),
    Kind.WRONG_VALUE: _wrong_value,
    Kind.UNASKED: "out of time before this was tested: {question}",
    Kind.COMPONENT_FLAKY: "a run that passed before failed when repeated: the failure is flaky",
    Kind.LADDER_NOT_MONOTONE: ("the ladder is not monotone: it fails at {rungs} and passes again at {above}"),
    Kind.RUNGS_FAIL_DIFFERENTLY: "{rungs} fails in a different way than the script",
    Kind.PAIR_OF_ANOTHER_STAGE: "the pair of rungs {below} and {at} isolates {isolates}, not {stage}",
    Kind.RUNG_FLAKY: "a rung that passed failed when repeated: the script is flaky",
    Kind.INSTRUMENTATION_HIDES: (
        "the plain run failed each time (3 of 3) and the recorded one never (0 of 3): instrumentation hides "
        "the failure"
    ),
    Kind.LAB_MAKES_FAILURE: (
        "the plain run passed each time ({runs} of {runs}), the recorded one failed each time: the failure "
        "comes from the lab's instrumentation, not from the script"
    ),
    Kind.STATE_LEFT_BEHIND: _state_left_behind,
    Kind.RUN_NOT_PREPARED: "the lab could not prepare the run",
    Kind.FAILS_IN_TWO_WAYS: "two runs of the unchanged script failed in two different ways",
    Kind.IN_OTHER_PROCESSES: (
        "torch.compile runs in processes that the script starts, and the script passes with it turned off "
        "there (TORCHDYNAMO_DISABLE=1); the rungs were set in those processes"
    ),
    Kind.FAILS_UNRECORDED: "uncompiled and without recording, the script fails in the same way",
    Kind.VALUES_VARY_UNCOMPILED: (
        "two uncompiled runs of the script do not agree with each other, so compiled values cannot "
        "be compared with them: they depend on the time, on the order of threads or on random numbers "
        "without a seed"
    ),
    Kind.MODULE_MISSING: "a module that the script imports is not installed",
    Kind.FILE_MISSING: "a file that the script opens does not exist",
    Kind.FILE_FORBIDDEN: "a file may not be read or written",
    Kind.DISK_FULL: "there is no space left on the device",
    Kind.WRITE_REFUSED: (
        "the operating system refused a file: a limit, a quota, a folder that may not be written or is none"
    ),
    Kind.SYSTEM_REFUSED: "the operating system refused what torch asked of it, with nothing compiled",
    Kind.PYTHON_HEADERS_MISSING: (
        "the headers of Python are missing, which every generated kernel includes (python3-dev)"
    ),
    Kind.COMPILER_BROKEN: "the C++ compiler cannot build even an empty library: {message}",
    Kind.COMPILER_NOT_FOUND: (
        "torch cannot start the C++ compiler that the script or its settings name, and the usual one works: "
        "{message}"
    ),
    Kind.FAILS_WITHOUT_KERNELS: "the script fails without generated kernels too",
    Kind.PASSES_WITHOUT_KERNELS: (
        "without generated kernels the script passed {passes} of {passing_runs} runs, with them it failed "
        "{failures} of {runs}"
    ),
    Kind.COMPANION_ON_ONE_SIDE: "a companion that only one side has cannot be swapped",
    Kind.COMPANION_NOT_ISOLATED: "other differences are not ruled out",
}

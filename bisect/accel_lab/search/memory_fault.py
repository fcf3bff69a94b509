"""Makes a memory fault deterministic, and counts its various crashes as one failure.

A stray write hits memory at random, so the script crashes in various ways or not at all. With the allocator's
own checks on, glibc checks the memory around each freed block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict

from .lab import Lab
from .repeats import Tally

#: Attempt numbers of checked runs start here: a result is stored under its number.
_CHECKED = 1000

_ONE_FAULT = "memory is overwritten, which shows in several ways that are counted as one failure"


def is_memory_fault(target: Signature | None) -> bool:
    """Whether the script crashes by an invalid memory access."""
    return target is not None and target.kind == "memory_fault"


def checked_runs(
    lab: Lab, probe: Probe, verdict: Callable[[Outcome], Verdict], runs: int
) -> list[Outcome] | None:
    """Makes runs with the allocator's checks, which stay on; returns None and turns them off if useless.

    They are used only if the script fails every time with them and passes with them uncompiled: otherwise
    they would find another fault.
    """
    lab.check_heap(True)
    jobs = [lab.submit(probe.again(_CHECKED + n)) for n in range(runs)]
    nothing = lab.submit(replace(probe.again(_CHECKED), rung=Rung.UNCOMPILED)).result()
    outcomes = [job.result() for job in jobs]
    if all(verdict(outcome) is Verdict.BAD for outcome in outcomes) and lab.signature(nothing) is None:
        return outcomes
    lab.check_heap(False)
    return None


def with_checks(unchecked: Tally) -> str:
    """Describes the runs with the checks; ``unchecked`` are the runs without."""
    return (
        "all but plain runs are made with the allocator's own checks (MALLOC_CHECK_=3), with which the "
        f"failure shows each time; {unchecked.failures} of {unchecked.runs} runs without them failed"
    )


def one_fault(notes: Sequence[str], signatures: Sequence[Signature | None]) -> list[str]:
    """Returns the notes, plus one if the runs of a memory fault ended by different signals."""
    faults = [signature for signature in signatures if signature and is_memory_fault(signature)]
    seen = [fault.type for fault in faults]
    kinds = list(dict.fromkeys(seen))
    kept = [note for note in notes if not note.startswith(_ONE_FAULT)]
    if len(kinds) < 2:
        return kept
    counts = ", ".join(f"{kind} in {seen.count(kind)} of {len(seen)} runs" for kind in kinds)
    said = next((f" ({fault.said})" for fault in faults if fault.said), "")
    return [*kept, f"{_ONE_FAULT}: {counts}{said}"]

"""Reduces the captured graphs of a failing script to the smallest graph that fails by itself.

A graph is written as a script with its real inputs. The failing run decides how the script must fail: the
compiled region raised, only the uncompiled one raised, or the values differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accel_lab.core.errors import UsageError
from accel_lab.core.findings import Step
from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature, normalise
from accel_lab.core.stages import Rung
from accel_lab.core.untrusted.child_files import UntrustedFileError, refuse_malformed
from accel_lab.reduction.graph.emit import SILENT, Check, emit
from accel_lab.reduction.graph.load import load_capture, load_captures, program_of, programs_of
from accel_lab.reduction.graph.program import Program
from accel_lab.reduction.graph.reducer import reduce_graph
from accel_lab.reduction.problem import Candidate
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline

from .candidates import LabProblem, write_program
from .target import VALUES_DIFFER, Target, tolerances_for

#: Most programs cut out of the captured graphs; after that, only the script is reduced.
MOST_STARTS = 8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The programs to try in order, the checks for each, and the target that they must meet."""

    programs: tuple[Program, ...]
    checks: tuple[Check, ...]
    target: Target


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """The smallest graph as a script."""

    candidate: Candidate
    nodes_before: int
    nodes_after: int


def plan(lab: Lab, probe: Probe, base: Baseline, ladder: Sequence[Step], target: Target) -> Plan | str:
    """Returns what to try, or why no graph can be cut out for this failure."""
    if target.bad is Rung.UNCOMPILED:
        return "it fails with nothing compiled"
    if target.bad is Rung.DYNAMO:
        return "it fails where the graphs are captured, so a captured graph does not show it"
    how = _how_it_fails(lab, base, ladder, target)
    if isinstance(how, str):
        return how
    checks, signature = how
    outcome = lab.submit(
        replace(probe, rung=Rung.DYNAMO, switches=(("capture", True), *target.bad_with))
    ).result()
    try:
        captures = load_captures(Path(outcome.folder)) if outcome.folder else []
        usable = [capture for capture in captures if not capture.reason]
        if not usable:
            return captures[0].reason if captures else "no graph was captured"
        with refuse_malformed("the captured graph"):
            programs = programs_of(usable)
    except UntrustedFileError as error:
        return f"what was captured was not read: {error}"
    if len(programs) > MOST_STARTS:
        programs = [*programs[: MOST_STARTS - 1], programs[-1]]  # the last one makes all calls in sequence
    return Plan(
        programs=tuple(programs),
        checks=checks,
        target=replace(target, signature=signature, error=None),
    )


def _how_it_fails(
    lab: Lab, base: Baseline, ladder: Sequence[Step], target: Target
) -> tuple[tuple[Check, ...], Signature] | str:
    rows = {step.rung: step.outcome for step in ladder}
    bad, plain = rows.get(target.bad), base.uncompiled or rows.get(Rung.UNCOMPILED)
    if bad is None or plain is None:
        return "the failing run left no records"
    if bad.status in (Status.SIGNAL, Status.TIMEOUT, Status.MEMORY):
        return (Check(kind="raises"),), target.signature
    compiled, eager = _raised_in_a_region(bad), _raised_in_a_region(plain)
    if compiled is not None and eager is None:
        signature = signature_of(Outcome(status=Status.EXCEPTION, raised=compiled))
        assert signature is not None
        return (Check(kind="raises"),), signature
    if eager is not None and compiled is None:
        silent = Signature(kind="exit", type="exit 1", message=normalise(SILENT))
        return (Check(kind="eager_raises"),), silent
    different = lab.differences(bad, plain, base.reference)
    if not different:
        return "the compiled regions return what they return uncompiled"
    errors = [d.comparison.max_abs_error for d in different if d.comparison.max_abs_error is not None]
    error = max((e for e in errors if math.isfinite(e)), default=0.0)
    return checks_for(error), VALUES_DIFFER


def checks_for(error: float) -> tuple[Check, ...]:
    """Returns the comparisons to try in order.

    ``error`` is the greatest absolute error that was seen. It is 0 for differences without one, such as
    dtypes, integers or NaN.
    """
    if error <= 0:
        return (Check(kind="values"),)
    return tuple(Check(kind="values", tolerance=pair) for pair in tolerances_for(error))


def _raised_in_a_region(outcome: Outcome) -> Raised | None:
    caught = outcome.facts.get("caught") or []
    return Raised.from_json(caught[-1]) if caught else None


def reduce(problem: LabProblem, plan: Plan) -> Reduced | str:
    """Returns the smallest failing graph, or why none fails. Raises OutOfBudget if none failed in time."""
    for program in plan.programs:
        for check in plan.checks:
            start = emit(program, check)
            if not problem.submit(start).result():
                continue
            problem.found(start, f"a captured graph of {program.nodes} nodes fails by itself")
            smallest = reduce_graph(problem, program, check)
            return Reduced(
                candidate=emit(smallest, check),
                nodes_before=program.nodes,
                nodes_after=smallest.nodes,
            )
    return "no captured graph fails by itself: the failure depends on code outside the graph"


def script_of_graph(path: Path, folder: Path) -> Path:
    """Writes a captured graph (``graph<k>.json`` of a probe's capture folder) as a script to bisect.

    Raises :class:`UsageError` for a file that is not a graph or cannot be written as a script.
    """
    try:
        capture = load_capture(path)
    except UntrustedFileError as error:
        raise UsageError(
            f"{path} is not a captured graph ({error}): give a graph<k>.json or a script"
        ) from None
    if capture.reason:
        raise UsageError(f"{path} cannot be written out as a script: {capture.reason}")
    with refuse_malformed(path.name):
        program = program_of(capture)
    return write_program(emit(program, Check(kind="values")), folder)

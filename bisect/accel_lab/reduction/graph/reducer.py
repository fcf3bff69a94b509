"""The entry point for reducing captured graphs: runs the passes in order."""

from __future__ import annotations

from accel_lab.reduction.problem import OutOfBudget, Problem

from .emit import Check, emit
from .load import Capture, load_captures, program_of, programs_of
from .passes import (
    cut_prefix,
    cut_suffix,
    drop_calls,
    drop_interior,
    fewer_results,
    one_by_one,
    simplify_backward,
)
from .program import Program
from .shrink import (
    shrink_sizes,
    simplify_arguments,
    simplify_layout,
    simplify_settings,
    simplify_types,
    simplify_values,
)
from .state import State
from .values import packed


def reduce_graph(problem: Problem, program: Program, check: Check) -> Program:
    """Returns the smallest program found whose script is interesting; ``program`` itself must be interesting.

    When the time is over, the best program so far is returned.
    """
    state = State(problem, program, check)
    try:
        _all_passes(state)
    except OutOfBudget:
        pass
    return state.program


#: A program of at most this many statements is not bisected: trying each statement needs fewer tests.
SMALL = 8


def _all_passes(state: State) -> None:
    drop_calls(state)
    simplify_backward(state)
    if state.program.nodes > SMALL:
        cut_suffix(state)
        fewer_results(state)
        cut_prefix(state)
        drop_interior(state)
    # Early, because a script without data files can be read and sent even if the time runs out.
    simplify_values(state)
    while True:
        before = state.program
        simplify_layout(state)
        simplify_values(state, literals=True)
        shrink_sizes(state)
        one_by_one(state)
        fewer_results(state)
        simplify_arguments(state)
        simplify_types(state)
        simplify_settings(state)
        if state.program == before:
            return


__all__ = [
    "Capture",
    "Check",
    "emit",
    "load_captures",
    "packed",
    "program_of",
    "programs_of",
    "reduce_graph",
]

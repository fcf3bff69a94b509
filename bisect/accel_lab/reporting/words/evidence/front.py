"""Sentences on Dynamo, AOTAutograd, the partitioner, decompositions and FX passes."""

from __future__ import annotations

from accel_lab.core.evidence import EvidenceKind as Kind
from accel_lab.core.evidence import Fact

from .ladder import WORDS as LADDER
from .template import Words, filled

#: Maximum applications named that must be left out together.
MOST_PASSES = 3
#: Maximum passes named that would fix it as well.
MOST_RIVALS = 5


def _must_be_traced(functions: list[str], around: list[str]) -> str:
    which = functions[0] if len(functions) == 1 else "each of " + ", ".join(functions)
    line = f"{which} must be compiled for the failure: with only that left uncompiled, it passes"
    return line + (f" (as it does with {', '.join(around)} around it left uncompiled)" if around else "")


def _trace_ended_at_line(function: str, first: int, last: int, source: str, same: bool) -> str:
    """``same``: with the line traced it fails as the script does."""
    behind = f"`{source}`" if first == last else f"lines {first}-{last} (`{source}` ...)"
    return (
        f"it passes when Dynamo's trace of {function} ends before line {first}, and fails"
        f"{'' if same else ' in another way'} when it ends after {behind}; the rest runs as plain Python in "
        "both"
    )


def _state_differs(thing: str, compiled: str, script: str, function_mends: bool) -> str:
    mended = "; with the function left uncompiled, both agree" if function_mends else ""
    return f"the compiled code leaves {thing} as {compiled!r}, the script as {script!r}{mended}"


def _setting_fixes(namespace: str, settings: list[str]) -> str:
    return f"with only {namespace}.{' or '.join(settings)} it passes"


def _operator_outside_aot(operators: list[str], others_fail: bool) -> str:
    what = operators[0] if len(operators) == 1 else "any one of " + ", ".join(operators)
    still = "; with all others outside it still fails" if others_fail else ""
    return f"it passes with only {what} run outside of AOTAutograd{still}"


def _value_of_graph(name: str, call: int, phase: str, path: str, how: str, forward: bool) -> str:
    graph = "the forward graph" if forward else "the backward graph (all outputs agree)"
    value: dict[str, Fact] = {"name": name, "call": call, "phase": phase, "path": path, "how": how}
    return f"{filled(LADDER[Kind.WRONG_VALUE], value)}: made by {graph}"


def _pass_left_out(rung: str, passes: list[str]) -> str:
    called = " and ".join(passes[:MOST_PASSES])
    if len(passes) > MOST_PASSES:
        called += f" and {len(passes) - MOST_PASSES} more"
    return f"at {rung} the failure disappears when only {called} is left out"


def _pass_alone_fails(applied: int, left_out: int) -> str:
    return (
        f"with {'it' if applied == 1 else 'them'} alone applied and {left_out} other "
        f"application{'s' if left_out > 1 else ''} left out, it still fails"
    )


def _pass_stood_in_for(applied: str, stand_ins: list[str]) -> str:
    return (
        f"with only {applied} left out it still fails, as {' and '.join(stand_ins)} then does the same work"
    )


def _earlier_pass_fixes(passes: list[str]) -> str:
    return (
        f"also fixed by leaving out {', '.join(passes[:MOST_RIVALS])}, which is applied earlier: the failure "
        "needs what both of them do"
    )


WORDS: dict[Kind, Words] = {
    Kind.ONLY_TRACED_CODE: "{function} is all the code that Dynamo compiled",
    Kind.MUST_BE_TRACED: _must_be_traced,
    Kind.TRACE_ENDED_AT_LINE: _trace_ended_at_line,
    Kind.STATE_DIFFERS: _state_differs,
    Kind.GUARD_FIXES: "it passes when only a change of {value} recompiles",
    Kind.GUARDS_FIX: "recompiling when any one of {values} changes fixes it; they change together",
    Kind.GUARD_ON_ATTRIBUTE: (
        "it passes when only a change of {value} recompiles; no guard of the compiled code refused the change"
    ),
    Kind.SETTING_FIXES: _setting_fixes,
    Kind.SETTING_WORKS_AROUND: (
        "with {namespace}.{setting} it passes: a workaround; causation is not established, as nothing was "
        "compiled or used a second time"
    ),
    Kind.OPERATOR_OUTSIDE_AOT: _operator_outside_aot,
    Kind.PARTITIONER_SETTING: "only the partitioner reads that setting",
    Kind.VALUE_OF_GRAPH: _value_of_graph,
    Kind.PASS_LEFT_OUT: _pass_left_out,
    Kind.PASS_ALONE_FAILS: _pass_alone_fails,
    Kind.PASS_REPLACED: _pass_stood_in_for,
    Kind.PASSES_ONLY_TOGETHER: (
        "all of them must be left out: with any one of them left in it does not pass"
    ),
    Kind.EARLIER_PASS_FIXES: _earlier_pass_fixes,
}

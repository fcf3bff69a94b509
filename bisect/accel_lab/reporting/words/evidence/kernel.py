"""Sentences on the kernel stage: its split, its operators, fusions and buffers, its generated lines."""

from __future__ import annotations

from accel_lab.core.evidence import EvidenceKind as Kind
from accel_lab.core.stages import Stage
from accel_lab.core.text import shorten

from .template import Words

#: Maximum operators named, and maximum characters of each name.
MOST_OPERATORS, MOST_CHARACTERS = 6, 120


def _order_conflict(maker: str, operator: str, kernel: str, conflict: str, buffer: str) -> str:
    """``maker`` is a stage or empty; ``conflict`` is read_write, write_write or unchecked."""
    made = {Stage.LOWERING.value: "lowering made", Stage.SCHEDULER.value: "the scheduler fused"}
    for_operator = f" for {operator}" if operator else ""
    does = {
        "read_write": f"reads elements of {buffer} that other iterations write",
        "write_write": f"writes elements of {buffer} from several iterations, with different values",
    }.get(conflict, f"may touch elements of {buffer} from several iterations")
    return f"the loop that {made.get(maker, 'runs')}{for_operator} ({kernel}) {does}: " + (
        "it is too large to tell whether its result depends on the order of the iterations"
        if conflict == "unchecked"
        else "its result depends on the order of the iterations"
    )


def _order_undefined(operator: str, kernel: str, conflict: str, buffer: str) -> str:
    words = _order_conflict("", operator, kernel, conflict, buffer)
    if conflict == "write_write":
        words += ", which torch leaves undefined for repeated indices: the script may rely on it"
    return words


def _passes_with_switches(switches: list[str]) -> str:
    return "it passes with: " + "; ".join(switches)


def _setting_misses_loops(switches: list[str]) -> str:
    return (
        f"yet the generated code passes with {'; '.join(switches)}, and the interpreted loop IR does not: "
        "the two may fail for different reasons"
    )


def _named(operators: list[str], nodes: list[str]) -> list[str]:
    pairs = zip(operators, nodes, strict=True)
    return [f"{shorten(operator, MOST_CHARACTERS)} (node {node})" for operator, node in pairs]


def _one_operator_eager(operators: list[str], nodes: list[str]) -> str:
    return f"it passes when only {' or '.join(_named(operators, nodes))} calls its eager kernel"


def _operators_eager(operators: list[str], nodes: list[str]) -> str:
    verb = "calls its eager kernel" if len(operators) == 1 else "call their eager kernels"
    return f"it passes when only {', '.join(_named(operators, nodes)[:MOST_OPERATORS])} {verb}"


def _only_operators_lowered(operators: list[str], nodes: list[str]) -> str:
    named = ", ".join(_named(operators, nodes)[:MOST_OPERATORS])
    return f"with only {named} lowered, and all others eager, it still fails"


def _fusion_left_out(fusions: list[str]) -> str:
    return f"it passes when {shorten(', '.join(fusions), 200)} are not fused"


def _reuse_left_out(reuses: list[str]) -> str:
    return f"it passes when this alone is left out: {shorten(', '.join(reuses), 200)}"


def _search_out_of_allowance(seconds: float, plain_runs: int) -> str:
    return (
        f"the search for the part at fault ended after {seconds:.0f} s of runs, over its limit of "
        f"{plain_runs} plain runs: untested parts are not ruled out"
    )


def _line_does_not_compile(operator: str, message: str) -> str:
    """An empty ``operator`` means that the line's operator is unknown."""
    writer = f", written for {operator}" if operator else " of no operator"
    return shorten(f"the C++ compiler rejects a line{writer}: {message}", 300)


def _sanitizer_shows_no_line(notes: list[str]) -> str:
    return "no line can be shown: " + shorten("; ".join(notes), 200)


def _sanitizer_stops_in_kernel(operator: str, access: str) -> str:
    writer = f", at a line written for {operator}" if operator else ""
    return f"compiled with the address sanitizer, the generated kernel stops{writer}: {access}"


WORDS: dict[Kind, Words] = {
    Kind.LOOPS_FAIL: "the loop IR from lowering, run by an interpreter, fails in the same way",
    Kind.LOOPS_FAIL_DIFFERENTLY: "the loop IR, run by an interpreter, fails in another way",
    Kind.SCHEDULED_LOOPS_FAIL: (
        "the interpreted loop IR is right after lowering and wrong after the scheduler"
    ),
    Kind.SCHEDULED_LOOPS_PASS: (
        "the scheduled loop IR, run by an interpreter, passes; only the generated code fails"
    ),
    Kind.ORDER_CONFLICT: _order_conflict,
    Kind.ORDER_UNDEFINED: _order_undefined,
    Kind.ORDER_NOT_ISOLATED: (
        "the interpreter runs an order with the right result, so no pair of runs isolates the order"
    ),
    Kind.FAILS_WHILE_FUSING: (
        "it fails while kernels are fused ({function} in {file}) and passes without fusion"
    ),
    Kind.FAILS_IN_FUSING: "it fails in {function} ({file}) and passes without fusion",
    Kind.FUSED_LOOP_FAILS: (
        "the loops that the scheduler fused, run by an interpreter, pass one after another and fail in the "
        "same way as one loop, index by index, as a fused kernel runs them: they must not be fused"
    ),
    Kind.PASSES_WITHOUT_FUSION: "it passes without fusion",
    Kind.FUSION_IN_DOUBT: (
        "the failure disappears without fusion: the fusion may be illegal, or the fused kernel wrong"
    ),
    Kind.PASSES_WITH_STRICT_MATH: (
        "the same generated code passes when it is compiled without relaxed floating-point rules"
    ),
    Kind.FAILS_AFTER_CODEGEN: "it fails in {function} ({file}), after code generation",
    Kind.PASSES_WITH_SWITCHES: _passes_with_switches,
    Kind.SETTING_MISSES_LOOPS: _setting_misses_loops,
    Kind.SETTING_FIXES_LOOPS: (
        "the setting that fixes the generated code fixes the interpreted loop IR as well"
    ),
    Kind.ONE_OPERATOR_EAGER: _one_operator_eager,
    Kind.OPERATORS_EAGER: _operators_eager,
    Kind.ONLY_OPERATORS_LOWERED: _only_operators_lowered,
    Kind.FUSION_LEFT_OUT: _fusion_left_out,
    Kind.REUSE_LEFT_OUT: _reuse_left_out,
    Kind.SEARCH_OUT_OF_BUDGET: (
        "the search for the part at fault ended with the time budget: untested parts are not ruled out"
    ),
    Kind.SEARCH_OUT_OF_ALLOWANCE: _search_out_of_allowance,
    Kind.LINE_DOES_NOT_COMPILE: _line_does_not_compile,
    Kind.SANITIZER_SHOWS_NO_LINE: _sanitizer_shows_no_line,
    Kind.SANITIZER_STOPS_ELSEWHERE: (
        "the address sanitizer finds {access}, in {function} and not in a generated kernel"
    ),
    Kind.SANITIZER_STOPS_IN_KERNEL: _sanitizer_stops_in_kernel,
    Kind.LOOPS_WITHIN_BOUNDS: (
        "no index of the loop IR is out of bounds, as the interpreter checks each: only the code generated "
        "from it leaves the buffer"
    ),
}

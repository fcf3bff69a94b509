"""Sentences on an accelerator: replaced parts, transfers, host calls and kernels, and its rungs."""

from __future__ import annotations

from accel_lab.core.evidence import EvidenceKind as Kind

from .template import Words, alike


def _fails_off_accelerator(same: bool) -> str:
    return f"the script fails {alike(same)} when nothing is compiled, so no accelerator is needed for it"


def _passes_with_parts(parts: list[str]) -> str:
    return "it passes with " + ", and with ".join(parts)


def _how_replaced(host_call: bool) -> str:
    return "called outside the runtime" if host_call else "made by the layout's definition"


def _what(host_call: bool) -> str:
    return "host call" if host_call else "transfer"


def _called(steps: list[str]) -> str:
    return steps[0] if len(steps) == 1 else f"the {len(steps)} that differ"


def _no_step_differs(host_call: bool) -> str:
    return f"no single {_what(host_call)} of a traced run differs from its definition"


def _first_wrong_step(host_call: bool, name: str, wrong: int, of: int, tensor: str) -> str:
    return (
        f"the first {_what(host_call)} that differs from its definition is {name}, {wrong} of {of} elements "
        f"({tensor})"
    )


def _steps_fix(host_call: bool, steps: list[str]) -> str:
    return f"with {_called(steps)} alone {_how_replaced(host_call)} it passes"


def _steps_do_not_fix(host_call: bool, steps: list[str]) -> str:
    return f"{_called(steps)} alone {_how_replaced(host_call)} does not fix it"


def _kernel(kernel: str, program: str, nodes: list[str], source: str) -> str:
    where = f" ({source})" if source else ""
    return f"kernel {kernel} of {program}, for {', '.join(nodes) or 'no node'}{where}"


def _first_of_back_end(kernel: str, program: str, nodes: list[str], source: str, distance: str) -> str:
    named = _kernel(kernel, program, nodes, source)
    return f"the first to differ between the back ends on the same bytes is {named}: {distance}"


def _first_of_graph(kernel: str, program: str, nodes: list[str], source: str, distance: str) -> str:
    named = _kernel(kernel, program, nodes, source)
    return f"the first to differ from the values of the ATen graph is {named}: {distance}"


WORDS: dict[Kind, Words] = {
    Kind.ACCELERATOR_NOT_PREPARED: "the script could not be run on the accelerator",
    Kind.FAILS_OFF_ACCELERATOR: _fails_off_accelerator,
    Kind.PARTS_REPEATED: (
        "run again: {main} failed {failures} of {runs} runs, {replaced} passed {passes} of {passing_runs}"
    ),
    Kind.PASSES_WITH_PARTS: _passes_with_parts,
    Kind.TRANSFER_FAILS: (
        "the same programs on the same back end fail with the device's transfers and pass where every tensor "
        "is moved by the layout's definition"
    ),
    Kind.TRANSFER_OR_BACK_END: (
        "the reference back end passes too, with the device's own transfers: it may not read the "
        "elements that are wrong"
    ),
    Kind.BACK_END_FAILS: (
        "the same kernel specs are wrong on the main back end and right on the reference back end"
    ),
    Kind.BACK_END_FAILS_OTHER_SPECS: (
        "the specs of the reference front end are wrong on the main back end as well"
    ),
    Kind.OTHER_SPECS_MISS_FAULT: (
        "the reference front end's specs do not reach the fault: they pass on the main back end"
    ),
    Kind.REFERENCE_FRONT_END_FAILS: (
        "the reference front end fails on the reference back end, where the main one passes"
    ),
    Kind.HOST_CALLS_FAIL: (
        "the same programs on the same back end fail with the accelerator's host calls and pass where the "
        "operators are called outside of it"
    ),
    Kind.HOST_CALLS_DECLARED_WRONG: (
        "the reference front end declares its own host calls, and passes: the fault is in the main front "
        "end's"
    ),
    Kind.FRONT_END_FAILS: "the main front end's programs fail where the reference front end's pass",
    Kind.FRONT_END_FAILS_ON_BOTH: (
        "the main front end's programs fail on both back ends; the reference front end's pass on both"
    ),
    Kind.FRONT_END_FAILS_WHERE_REFERENCE_PASSES: (
        "the main front end's programs fail where the reference front end's pass, on both back ends"
    ),
    Kind.REFERENCES_NOT_RUN_TOGETHER: ("the reference front end could not be run on the reference back end"),
    Kind.REFERENCE_FRONT_END_DISAGREES: (
        "the reference front end passes on the main back end and does not on the reference back end"
    ),
    Kind.ONLY_BOTH_REFERENCES_PASS: (
        "neither the reference front end nor the reference back end alone passes, both together do: either "
        "both ends are at fault, or one reference does not work with the other end of the accelerator"
    ),
    Kind.CACHES_FAIL: ("it fails with every combination of the two ends, and passes with the caches off"),
    Kind.CACHE_REUSES_ARTIFACT: (
        "it passes with the caches off: an artifact is reused where it is not valid"
    ),
    Kind.CACHE_HAS_NO_REFERENCE: "the cache has no reference that could replace it",
    Kind.PARTS_FAIL_DIFFERENTLY: "it fails in another way with {parts}",
    Kind.PARTS_NOT_RUN: "could not be run: {parts}",
    Kind.NO_STEP_DIFFERS: _no_step_differs,
    Kind.FIRST_WRONG_STEP: _first_wrong_step,
    Kind.STEPS_FIX: _steps_fix,
    Kind.STEPS_DO_NOT_FIX: _steps_do_not_fix,
    Kind.NO_KERNEL_DIFFERS: "no single kernel's values differ from those of its operators",
    Kind.FIRST_KERNEL_OF_BACK_END: _first_of_back_end,
    Kind.FIRST_KERNEL_OF_GRAPH: _first_of_graph,
    Kind.SPEC_REFUSED: "the spec of kernel {kernel} is rejected before it runs: {why} (rule {rule})",
    Kind.KERNEL_FIXES: "with kernel {kernel} alone on the reference back end it passes",
    Kind.KERNEL_DOES_NOT_FIX: (
        "that kernel alone on the reference back end does not fix it: others are wrong too"
    ),
    Kind.ADAPTER_RUNG_FAILS: "passes with {passing} and fails with {failing}",
    Kind.WAYS_REPEATED: ("run again: failed {failures} of {runs} runs, passed {passes} of {passing_runs}"),
    Kind.ADAPTER_RUNGS_NOT_MONOTONE: "the accelerator's rungs are not monotone: some later ones pass",
    Kind.NO_ADAPTER_RUNG_FAILS_ALONE: "the adapter offers no rung that fails on its own ({ways} pass)",
    Kind.NO_FURTHER_WAYS: (
        "the adapter offers no further rungs, so its front end and its back end cannot be separated"
    ),
    Kind.SINGLE_RUNG: "no part of the accelerator was replaced, so its parts cannot be separated",
}

"""Sentences on the alternatives to the blamed stage, and on differences by design."""

from __future__ import annotations

from accel_lab.core.evidence import EvidenceKind as Kind
from accel_lab.core.stages import Rung

from .template import Words, filled

#: Maximum operators named that also fail with their native kernel.
MOST_NATIVE = 4

#: What torch.compile does, by the kind of its argument.
_WRAPPERS = {
    "module": "puts around a module",
    "method": "puts into the module's __call__",
    "function": "puts around a function",
}


def _wrapper_fails(wrapped: str) -> str:
    return (
        "passes when torch.compile returns its argument, fails with the wrapper that torch.compile "
        f"{_WRAPPERS[wrapped]} and nothing compiled"
    )


def _graph_reused(at: str, graphs_differ: bool) -> str:
    differ = ", and then the calls capture different graphs" if graphs_differ else ""
    return (
        f"at {at} it passes when every call is recompiled{differ}: a graph was reused where it is not valid "
        "(a missing guard or a wrong generalization)"
    )


def _mode_left_changed(mode: str, compiled: str, script: str, at: str) -> str:
    return (
        f"the graph that Dynamo captured leaves {mode} as {compiled}, the script as {script}; run once, as "
        f"at {Rung.DYNAMO}, that does no harm to this script, and {at} runs the graph more than once"
    )


def _outputs_merged(one: str, other: str, view: bool) -> str:
    how = "a view and what it is a view of" if view else "two results"
    return (
        f"outputs {one} and {other}, {how}, become one node: AOTAutograd may be at fault for not separating "
        "the aliases"
    )


def _meta_kernels_not_the_cause(promises: list[str]) -> str:
    return f"meta kernels disagree with the real ones but are not the cause: {'; '.join(promises)}"


def _inputs_not_the_cause(inputs: list[str]) -> str:
    given = "; ".join(inputs)
    return (
        f"Dynamo passes a graph inputs that differ from its captured metadata ({given}); it fails without "
        "that, too"
    )


def _inputs_corrected(inputs: list[str], at: str) -> str:
    return (
        f"Dynamo passes a graph inputs that differ from its captured metadata ({'; '.join(inputs)}); with "
        f"those converted to match it and nothing else changed, {at} passes"
    )


def _meta_kernel_differs(promises: list[str]) -> str:
    return f"the meta kernel predicts another result than the real kernel returns: {'; '.join(promises)}"


def _fails_with_native_kernels(operators: list[str]) -> str:
    return "it fails as well with the native kernels of " + ", ".join(operators[:MOST_NATIVE])


def _native_kernel_fixes(operators: list[str]) -> str:
    return (
        f"it passes when AOTAutograd traces the native kernel of {' or '.join(operators)} instead of the "
        "Python one, though both return the same when called by themselves"
    )


def _python_kernel_traced(at: str, kernel: str, operator: str, under: list[str]) -> str:
    removed = f"that kernel and those of {', '.join(under)}, which it calls," if under else "that kernel"
    return (
        f"{at} traces {kernel}, the Python kernel that torch's dispatcher selects for {operator}; with only "
        f"{removed} removed, so that the native {'ones are' if under else 'one is'} traced, it passes"
    )


def _rounds_less_often(dtypes: list[str]) -> str:
    return f"compiled code rounds to {' and '.join(dtypes)} less often than uncompiled code"


def _random_numbers_may_explain(failing: int, seeds: int, setting: str) -> str:
    fails = filled(WORDS[Kind.FAILS_WITH_OTHER_SEEDS], {"failing": failing, "seeds": seeds})
    passes = filled(WORDS[Kind.PASSES_WITH_ONLY_SETTING], {"setting": setting})
    return f"other random numbers may explain it: {fails}; {passes}"


def _refuses_roundings(runs: int) -> str:
    return (
        f"{WORDS[Kind.NEAR_FLOAT64]}, and uncompiled, with each element that the regions return moved by one "
        f"unit in the last place, the script fails in the same way ({runs} of {runs} runs): it compares bit "
        "by bit, and other roundings may be by design"
    )


WORDS: dict[Kind, Words] = {
    Kind.INPUT_RECORRECTED: "run again with only that corrected: passed {passes} of {runs} runs",
    Kind.CACHE_FAILS: (
        "with the caches off it passed in {passes} of {runs_off} recorded runs, with {cache} on it fails as "
        "the plain run does ({failures} of {runs_on} runs): code compiled for another state is reused"
    ),
    Kind.FAILS_WITHOUT_WRAPPER: "it fails as well when torch.compile returns its argument",
    Kind.FAILS_DISABLED_EVERYWHERE: "it fails as well with TORCHDYNAMO_DISABLE=1 for all that it starts",
    Kind.PASSES_PLAIN_DISABLED: (
        "the script fails uncompiled only when the lab runs it: plain Python with TORCHDYNAMO_DISABLE=1 "
        "passes, so something that the script changes in its process breaks the lab's runs"
    ),
    Kind.WRAPPER_FAILS: _wrapper_fails,
    Kind.FAILS_RECOMPILED: ("it fails as well when every call is recompiled, so no reused graph is needed"),
    Kind.PASSES_RECOMPILED: (
        "it passes when every call is recompiled, though each call captures the same graph: a guard may be "
        "missing, or what was compiled does not last"
    ),
    Kind.GRAPH_REUSED: _graph_reused,
    Kind.MODES_AGREE: "the captured graph leaves torch's modes as the script does",
    Kind.MODE_LEFT_CHANGED: _mode_left_changed,
    Kind.RAISES_ON_FAKE_TENSORS: (
        "{at} runs {operator} on fake tensors, and there it raises; uncompiled the real kernel does not: its "
        "meta kernel, or its handling of symbolic sizes, is the likelier cause"
    ),
    Kind.FAILS_CONTIGUOUS: "it fails as well when every operator gets contiguous copies of its tensors",
    Kind.PASSES_CONTIGUOUS: (
        "at {at} it passes when every operator gets contiguous copies of its tensors: an eager kernel that "
        "misreads legal strides may be at fault"
    ),
    Kind.OUTPUTS_MERGED: _outputs_merged,
    Kind.NO_OUTPUTS_MERGED: "no two results of the graph become one node",
    Kind.META_KERNELS_AGREE: "every operator's result agrees with its meta kernel",
    Kind.META_KERNELS_NOT_THE_CAUSE: _meta_kernels_not_the_cause,
    Kind.INPUTS_NOT_THE_CAUSE: _inputs_not_the_cause,
    Kind.INPUTS_CORRECTED: _inputs_corrected,
    Kind.META_KERNEL_DIFFERS: _meta_kernel_differs,
    Kind.META_KERNEL_CORRECTED: (
        "with the meta kernel of {operators} corrected and nothing else changed, {at} passes"
    ),
    Kind.META_KERNEL_LACKS_CHECK: (
        "the real kernel of {operator} rejects these inputs and its meta kernel accepts them: the check may "
        "be missing there as well"
    ),
    Kind.NO_PYTHON_KERNEL: "no operator has a Python kernel",
    Kind.FAILS_WITH_NATIVE_KERNELS: _fails_with_native_kernels,
    Kind.NATIVE_KERNEL_FIXES: _native_kernel_fixes,
    Kind.PYTHON_KERNEL_TRACED: _python_kernel_traced,
    Kind.PYTHON_KERNEL_DIFFERS: (
        "called by itself on the same inputs the Python kernel differs from the native one: {what}: native "
        "{native}, Python {python}"
    ),
    Kind.AUTOGRAD_RAISES: (
        "autograd itself raises there, and nothing below AOTAutograd handles autograd: what AOTAutograd or "
        "the partitioner saves or writes back may be at fault"
    ),
    Kind.RUNG_SKIPPED: "rung {rungs} gave no answer, so what is added there is not ruled out",
    Kind.RUNG_SKIPPED_COMPONENT_PROVEN: (
        "rung {rungs} was inconclusive, and leaving out the component alone fixes the failure"
    ),
    Kind.OTHER_RANDOM_NUMBERS: ("compiled and uncompiled code draw other random numbers from the same seed"),
    Kind.ROUNDS_LESS_OFTEN: _rounds_less_often,
    Kind.VALUES_AGREE_WITH_SETTING: (
        "the script completes, and its recorded values agree with that setting alone"
    ),
    Kind.SEEDS_CHANGE_VALUES: "uncompiled, other seeds change those values as much",
    Kind.PASSES_WITH_OTHER_NUMBERS: (
        "the uncompiled script passes with other random numbers, so they alone do not explain it"
    ),
    Kind.FAILS_WITH_OTHER_SEEDS: (
        "uncompiled, with other random numbers in the regions, it fails in the same way with {failing} of "
        "{seeds} seeds"
    ),
    Kind.RANDOM_NUMBERS_MAY_EXPLAIN: _random_numbers_may_explain,
    Kind.FAILS_WITH_SETTING: "it fails as well with {setting}",
    Kind.PASSES_WITH_ONLY_SETTING: "compiled with {setting}, and nothing else changed, it passes",
    Kind.NEAR_FLOAT64: "the compiled values are not further from a float64 run than eager's",
    Kind.EAGER_FAR_FROM_FLOAT64: (
        "a float64 run agrees with the compiled values and not with the uncompiled ones: eager's own kernel "
        "may be wrong"
    ),
    Kind.FAR_FROM_FLOAT64: ("compiled values are further from a float64 run than eager's rounding explains"),
    Kind.REFUSES_ROUNDINGS: _refuses_roundings,
    Kind.ACCEPTS_ROUNDINGS: (
        "uncompiled the script accepts results that are off by a rounding, so rounding is not the cause"
    ),
}

"""Evidence: a typed record of one observation of a search. ``reporting/words`` makes its sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .record import Record

#: Types of a fact: JSON scalars but null, and lists of strings.
Fact = str | int | float | bool | list[str]


class EvidenceKind(str, Enum):
    """The kinds of observations, one for each sentence; the word tables name the facts of each kind."""

    #: Free text: a note of a child or an adapter, or a sentence from an old report without records.
    SAID = "said"

    # The ladder: the pair of rungs that names the stage, its repeats, and what the ladder leaves open.
    PASSES_AND_FAILS_AT = "passes_and_fails_at"
    RUNG_ADDS_FAILURE = "rung_adds_failure"
    INNERMOST_FRAME = "innermost_frame"
    PAIR_REPEATED = "pair_repeated"
    PAIR_CHOSEN_AFTERWARDS = "pair_chosen_afterwards"
    FAILS_UNCOMPILED = "fails_uncompiled"
    SECOND_FAULT = "second_fault"
    NO_SECOND_FAULT = "no_second_fault"
    WRONG_VALUE = "wrong_value"
    UNASKED = "unasked"
    COMPONENT_FLAKY = "component_flaky"
    LADDER_NOT_MONOTONE = "ladder_not_monotone"
    RUNGS_FAIL_DIFFERENTLY = "rungs_fail_differently"
    PAIR_OF_ANOTHER_STAGE = "pair_of_another_stage"
    RUNG_FLAKY = "rung_flaky"

    # The premise: doubts about the failure of the unmodified script.
    INSTRUMENTATION_HIDES = "instrumentation_hides"
    LAB_MAKES_FAILURE = "lab_makes_failure"
    STATE_LEFT_BEHIND = "state_left_behind"
    RUN_NOT_PREPARED = "run_not_prepared"
    FAILS_IN_TWO_WAYS = "fails_in_two_ways"
    IN_OTHER_PROCESSES = "in_other_processes"
    FAILS_UNRECORDED = "fails_unrecorded"
    VALUES_VARY_UNCOMPILED = "values_vary_uncompiled"

    # The environment of the script.
    MODULE_MISSING = "module_missing"
    FILE_MISSING = "file_missing"
    FILE_FORBIDDEN = "file_forbidden"
    DISK_FULL = "disk_full"
    WRITE_REFUSED = "write_refused"
    SYSTEM_REFUSED = "system_refused"
    PYTHON_HEADERS_MISSING = "python_headers_missing"
    COMPILER_BROKEN = "compiler_broken"
    COMPILER_NOT_FOUND = "compiler_not_found"
    FAILS_WITHOUT_KERNELS = "fails_without_kernels"
    PASSES_WITHOUT_KERNELS = "passes_without_kernels"

    # The companion packages of a release, swapped one by one.
    COMPANION_ON_ONE_SIDE = "companion_on_one_side"
    COMPANION_NOT_ISOLATED = "companion_not_isolated"

    # Dynamo: functions, lines, guards, side effects, settings.
    ONLY_TRACED_CODE = "only_traced_code"
    MUST_BE_TRACED = "must_be_traced"
    TRACE_ENDED_AT_LINE = "trace_ended_at_line"
    STATE_DIFFERS = "state_differs"
    GUARD_FIXES = "guard_fixes"
    GUARDS_FIX = "guards_fix"
    GUARD_ON_ATTRIBUTE = "guard_on_attribute"
    SETTING_FIXES = "setting_fixes"
    SETTING_WORKS_AROUND = "setting_works_around"

    # AOTAutograd and the partitioner.
    OPERATOR_OUTSIDE_AOT = "operator_outside_aot"
    PARTITIONER_SETTING = "partitioner_setting"
    VALUE_OF_GRAPH = "value_of_graph"

    # Decompositions and FX passes.
    PASS_LEFT_OUT = "pass_left_out"
    PASS_ALONE_FAILS = "pass_alone_fails"
    PASS_REPLACED = "pass_stood_in_for"
    PASSES_ONLY_TOGETHER = "passes_only_together"
    EARLIER_PASS_FIXES = "earlier_pass_fixes"

    # The split of the kernel stage.
    LOOPS_FAIL = "loops_fail"
    LOOPS_FAIL_DIFFERENTLY = "loops_fail_differently"
    SCHEDULED_LOOPS_FAIL = "scheduled_loops_fail"
    SCHEDULED_LOOPS_PASS = "scheduled_loops_pass"
    ORDER_CONFLICT = "order_conflict"
    ORDER_UNDEFINED = "order_undefined"
    ORDER_NOT_ISOLATED = "order_not_isolated"
    FAILS_WHILE_FUSING = "fails_while_fusing"
    FAILS_IN_FUSING = "fails_in_fusing"
    FUSED_LOOP_FAILS = "fused_loop_fails"
    PASSES_WITHOUT_FUSION = "passes_without_fusion"
    FUSION_IN_DOUBT = "fusion_in_doubt"
    PASSES_WITH_STRICT_MATH = "passes_with_strict_math"
    FAILS_AFTER_CODEGEN = "fails_after_codegen"
    PASSES_WITH_SWITCHES = "passes_with_switches"
    SETTING_MISSES_LOOPS = "setting_misses_loops"
    SETTING_FIXES_LOOPS = "setting_fixes_loops"

    # Operators, fusions and buffers of the kernel stage, and the lines generated for them.
    ONE_OPERATOR_EAGER = "one_operator_eager"
    OPERATORS_EAGER = "operators_eager"
    ONLY_OPERATORS_LOWERED = "only_operators_lowered"
    FUSION_LEFT_OUT = "fusion_left_out"
    REUSE_LEFT_OUT = "reuse_left_out"
    SEARCH_OUT_OF_BUDGET = "search_out_of_budget"
    SEARCH_OUT_OF_ALLOWANCE = "search_out_of_allowance"
    LINE_DOES_NOT_COMPILE = "line_does_not_compile"
    SANITIZER_SHOWS_NO_LINE = "sanitizer_shows_no_line"
    SANITIZER_STOPS_ELSEWHERE = "sanitizer_stops_elsewhere"
    SANITIZER_STOPS_IN_KERNEL = "sanitizer_stops_in_kernel"
    LOOPS_WITHIN_BOUNDS = "loops_within_bounds"

    # Alternatives to the ladder's stage.
    INPUT_RECORRECTED = "corrected_again"
    CACHE_FAILS = "cache_fails"
    FAILS_WITHOUT_WRAPPER = "fails_without_wrapper"
    FAILS_DISABLED_EVERYWHERE = "fails_disabled_everywhere"
    PASSES_PLAIN_DISABLED = "passes_plain_disabled"
    WRAPPER_FAILS = "wrapper_fails"
    FAILS_RECOMPILED = "fails_recompiled"
    PASSES_RECOMPILED = "passes_recompiled"
    GRAPH_REUSED = "graph_reused"
    MODES_AGREE = "modes_agree"
    MODE_LEFT_CHANGED = "mode_left_changed"
    RAISES_ON_FAKE_TENSORS = "raises_on_fake_tensors"
    FAILS_CONTIGUOUS = "fails_contiguous"
    PASSES_CONTIGUOUS = "passes_contiguous"
    OUTPUTS_MERGED = "outputs_merged"
    NO_OUTPUTS_MERGED = "no_outputs_merged"
    META_KERNELS_AGREE = "meta_kernels_agree"
    META_KERNELS_NOT_THE_CAUSE = "meta_kernels_not_the_cause"
    INPUTS_NOT_THE_CAUSE = "inputs_not_the_cause"
    INPUTS_CORRECTED = "inputs_corrected"
    META_KERNEL_DIFFERS = "meta_kernel_differs"
    META_KERNEL_CORRECTED = "meta_kernel_corrected"
    META_KERNEL_LACKS_CHECK = "meta_kernel_lacks_check"
    NO_PYTHON_KERNEL = "no_python_kernel"
    FAILS_WITH_NATIVE_KERNELS = "fails_with_native_kernels"
    NATIVE_KERNEL_FIXES = "native_kernel_fixes"
    PYTHON_KERNEL_TRACED = "python_kernel_traced"
    PYTHON_KERNEL_DIFFERS = "python_kernel_differs"
    AUTOGRAD_RAISES = "autograd_raises"
    RUNG_SKIPPED = "rung_skipped"
    RUNG_SKIPPED_COMPONENT_PROVEN = "rung_skipped_component_proven"

    # Differences by design: random numbers, rounding.
    OTHER_RANDOM_NUMBERS = "other_random_numbers"
    ROUNDS_LESS_OFTEN = "rounds_less_often"
    VALUES_AGREE_WITH_SETTING = "values_agree_with_setting"
    SEEDS_CHANGE_VALUES = "seeds_change_values"
    PASSES_WITH_OTHER_NUMBERS = "passes_with_other_numbers"
    FAILS_WITH_OTHER_SEEDS = "fails_with_other_seeds"
    RANDOM_NUMBERS_MAY_EXPLAIN = "random_numbers_may_explain"
    FAILS_WITH_SETTING = "fails_with_setting"
    PASSES_WITH_ONLY_SETTING = "passes_with_only_setting"
    NEAR_FLOAT64 = "near_float64"
    FAR_FROM_FLOAT64 = "far_from_float64"
    EAGER_FAR_FROM_FLOAT64 = "eager_far_from_float64"
    REFUSES_ROUNDINGS = "refuses_roundings"
    ACCEPTS_ROUNDINGS = "accepts_roundings"

    # An accelerator: its parts, replaced one at a time.
    ACCELERATOR_NOT_PREPARED = "accelerator_not_prepared"
    FAILS_OFF_ACCELERATOR = "fails_off_accelerator"
    PARTS_REPEATED = "parts_repeated"
    PASSES_WITH_PARTS = "passes_with_parts"
    TRANSFER_FAILS = "transfer_fails"
    TRANSFER_OR_BACK_END = "transfer_or_back_end"
    BACK_END_FAILS = "back_end_fails"
    BACK_END_FAILS_OTHER_SPECS = "back_end_fails_other_specs"
    OTHER_SPECS_MISS_FAULT = "other_specs_miss_fault"
    REFERENCE_FRONT_END_FAILS = "reference_front_end_fails"
    HOST_CALLS_FAIL = "host_calls_fail"
    HOST_CALLS_DECLARED_WRONG = "host_calls_declared_wrong"
    FRONT_END_FAILS = "front_end_fails"
    FRONT_END_FAILS_ON_BOTH = "front_end_fails_on_both"
    FRONT_END_FAILS_WHERE_REFERENCE_PASSES = "front_end_fails_where_reference_passes"
    REFERENCES_NOT_RUN_TOGETHER = "references_not_run_together"
    REFERENCE_FRONT_END_DISAGREES = "reference_front_end_disagrees"
    ONLY_BOTH_REFERENCES_PASS = "only_both_references_pass"
    CACHES_FAIL = "caches_fail"
    CACHE_REUSES_ARTIFACT = "cache_reuses_artifact"
    CACHE_HAS_NO_REFERENCE = "cache_has_no_reference"
    PARTS_FAIL_DIFFERENTLY = "parts_fail_differently"
    PARTS_NOT_RUN = "parts_not_run"

    # An accelerator: its transfers, host calls and kernels.
    NO_STEP_DIFFERS = "no_step_differs"
    FIRST_WRONG_STEP = "first_wrong_step"
    STEPS_FIX = "steps_fix"
    STEPS_DO_NOT_FIX = "steps_do_not_fix"
    NO_KERNEL_DIFFERS = "no_kernel_differs"
    FIRST_KERNEL_OF_BACK_END = "first_kernel_of_back_end"
    FIRST_KERNEL_OF_GRAPH = "first_kernel_of_graph"
    SPEC_REFUSED = "spec_refused"
    KERNEL_FIXES = "kernel_fixes"
    KERNEL_DOES_NOT_FIX = "kernel_does_not_fix"

    # An accelerator: its rungs.
    ADAPTER_RUNG_FAILS = "way_fails"
    WAYS_REPEATED = "ways_repeated"
    ADAPTER_RUNGS_NOT_MONOTONE = "ways_not_monotone"
    NO_ADAPTER_RUNG_FAILS_ALONE = "no_way_fails_alone"
    NO_FURTHER_WAYS = "no_further_ways"
    SINGLE_RUNG = "one_box"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Evidence(Record):
    """One observation: its kind and its facts, named as in the kind's sentence."""

    kind: EvidenceKind
    facts: Mapping[str, Fact] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, kind: EvidenceKind, /, **facts: Fact | Enum | Sequence[object]) -> Evidence:
        """Creates an observation; enum members such as rungs and stages are stored by value."""
        return cls(kind=kind, facts={name: _plain(fact) for name, fact in facts.items()})

    @classmethod
    def said(cls, text: str) -> Evidence:
        """Wraps free text; its sentence is the text itself."""
        return cls(kind=EvidenceKind.SAID, facts={"text": text})

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind.value, "facts": dict(self.facts)}

    @classmethod
    def from_json(cls, data: Any) -> Evidence:
        """Reads what :meth:`to_json` wrote. Raises ValueError; the names of facts are not checked."""
        if not isinstance(data, Mapping) or not isinstance(data.get("facts"), Mapping):
            raise ValueError(f"{cls.__name__}: it is not an object with a kind and facts")
        try:
            kind = EvidenceKind(data.get("kind"))
        except ValueError:
            raise ValueError(f"{cls.__name__}: kind is not one of the lab's") from None
        facts = {str(name): _read(fact) for name, fact in data["facts"].items()}
        return cls(kind=kind, facts=facts)


def with_records(row: Any) -> Any:
    """Adds evidence records to a report's JSON row that has only sentences (``words``, ``evidence``)."""
    if not isinstance(row, Mapping):
        return row
    read = dict(row)
    words, lines = row.get("words"), row.get("evidence")
    if "observation" not in row and isinstance(words, str):
        read["observation"] = Evidence.said(words).to_json()
    if "observations" not in row and isinstance(lines, list):
        read["observations"] = [Evidence.said(str(line)).to_json() for line in lines]
    return read


def _plain(fact: object) -> Fact:
    if isinstance(fact, Enum):
        return str(fact.value)
    if isinstance(fact, (str, int, float)):
        return fact
    if isinstance(fact, Sequence):
        return [str(item) for item in fact]
    raise TypeError(f"{type(fact).__name__} is no fact")


def _read(fact: object) -> Fact:
    if isinstance(fact, (str, int, float)):
        return fact
    if isinstance(fact, list) and all(isinstance(item, str) for item in fact):
        return fact
    raise ValueError("Evidence: a fact is neither text, a number, true or false nor a list of texts")

"""Names rungs, verdicts and stages for users of the lab."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accel_lab.core.findings import Culprit, Findings, Step
from accel_lab.core.outcome import Status
from accel_lab.core.signature import Signature
from accel_lab.core.stages import LONG_LADDER, Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How a verdict is shown: ``name`` is a CSS class; ``symbol`` and ``words`` work without colour."""

    name: str
    symbol: str
    ascii: str
    words: str


GOOD = Mark(name="good", symbol="✓", ascii="+", words="passes")
BAD = Mark(name="bad", symbol="✗", ascii="x", words="fails")
DIFFERENT = Mark(name="different", symbol="≠", ascii="!", words="fails differently")
SKIP = Mark(name="skip", symbol="?", ascii="?", words="cannot tell")
NOT_APPLICABLE = Mark(name="na", symbol="·", ascii="-", words="not applicable")

_MARKS = {
    Verdict.GOOD: GOOD,
    Verdict.BAD: BAD,
    Verdict.DIFFERENT: DIFFERENT,
    Verdict.SKIP: SKIP,
}

#: What each rung runs, as a short phrase.
RUNS: dict[Rung, str] = {rung: rung.record.runs for rung in Rung}

#: The torch backend that stops at the same rung, which PyTorch's issue template asks for. Rungs without such
#: a backend are missing.
TORCH_BACKENDS: dict[Rung, str] = {
    rung: rung.record.torch_backend for rung in Rung if rung.record.torch_backend
}

STAGES: dict[Stage, str] = {
    Stage.EAGER: "eager mode",
    Stage.DYNAMO: "Dynamo (graph capture)",
    Stage.AOT_AUTOGRAD: "AOTAutograd",
    Stage.META_KERNEL: "a meta (fake) kernel",
    Stage.PARTITIONER: "the partitioner",
    Stage.DECOMPOSITION: "a decomposition",
    Stage.FX_PASSES: "Inductor's FX passes",
    Stage.KERNEL: "Inductor's kernel stage",
    Stage.LOWERING: "Inductor's lowering",
    Stage.SCHEDULER: "Inductor's scheduler",
    Stage.CODEGEN: "Inductor's code generation",
    Stage.RUNTIME: "the runtime of the generated kernels",
    Stage.MOCK_FRONT_END: "the mock accelerator's front end",
    Stage.MOCK_BACK_END: "the mock accelerator's back end",
    Stage.MOCK_TRANSFER: "the mock accelerator's transfers",
    Stage.MOCK_RUNTIME: "the mock accelerator's runtime",
    Stage.ACCELERATOR: "the accelerator",
    Stage.ACCELERATOR_FRONT_END: "the accelerator's front end",
    Stage.ACCELERATOR_BACK_END: "the accelerator's back end",
    Stage.ACCELERATOR_TRANSFER: "the accelerator's transfers",
    Stage.ENVIRONMENT: "the environment",
}

VERDICTS = {
    "fails": "FAILS",
    "passes": "PASSES",
    "by_design": "BY DESIGN",
    "inconclusive": "CANNOT TELL",
}


def verdict_of(findings: Findings) -> str:
    """Returns the verdict in one or two words."""
    return "OUTSIDE THE LADDER" if findings.outside else VERDICTS.get(findings.verdict, "CANNOT TELL")


def runs_of(step: Step) -> str:
    """Says what a row of the ladder runs; an accelerator's row has its own label."""
    return step.label or RUNS.get(step.rung, "")


def mark_of(step: Step) -> Mark:
    """Returns the mark of a row: its verdict, or not applicable if the rung did not apply."""
    if step.outcome.status is Status.NOT_APPLICABLE:
        return NOT_APPLICABLE
    return _MARKS[step.verdict]


def said_of(step: Step) -> str:
    """Returns the verdict in words, with the number of failing runs if a step has several runs."""
    words = mark_of(step).words
    if step.runs > 1:
        return (
            f"{words} ({step.failures} of {step.runs} runs)"
            if step.failures
            else f"{words} ({step.runs} runs)"
        )
    return words


def failure_of(step: Step) -> str:
    """Says in one line how a step failed; empty if it did not."""
    if step.signature is not None:
        return step.signature.line
    if step.outcome.raised is not None:
        raised = step.outcome.raised
        return f"{raised.type}: {raised.message}" if raised.message else raised.type
    if step.outcome.status in (Status.OK, Status.NOT_APPLICABLE):
        return ""
    if step.outcome.signal is not None:
        return f"signal {step.outcome.signal}"
    if step.outcome.status is Status.EXIT:
        return f"exit code {step.outcome.exit_code}"
    return str(step.outcome.status)


#: Parts of a ``torch.testing.assert_close`` message other than its measured numbers.
_ALLOWED = re.compile(r" at index \([^()]*\)| \(up to [^()]* allowed\)")
_LONG_NUMBER = re.compile(r"(?<!\d)\d+\.\d{4,}(?:e[+-]?\d+)?")


def brief_failure(signature: Signature) -> str:
    """Describes a failure in one line: numbers with three digits, no tolerances, cut at a word."""
    line = _ALLOWED.sub("", " ".join(signature.line.split()))
    return shorten(_LONG_NUMBER.sub(lambda number: f"{float(number.group()):.3g}", line), 160)


def torch_backend(rung: Rung) -> str:
    """Returns how a torch user requests the rung, or ""."""
    if rung is Rung.UNCOMPILED:
        return "no torch.compile"
    name = TORCH_BACKENDS.get(rung)
    return f'backend="{name}"' if name else ""


def component_of(culprit: Culprit) -> str:
    """Returns the component's kind and name, with its confidence if that differs from the stage's."""
    part = culprit.component
    if part is None:
        return ""
    sure = "" if part.confidence is culprit.confidence else f" ({part.confidence})"
    return f"{part.kind} {part.name}{sure}"


def confidence_of(culprit: Culprit) -> str:
    """Returns the confidence; if stage and component differ, one for each."""
    part = culprit.component
    if part is None or part.confidence is culprit.confidence:
        return culprit.confidence.value
    return f"stage {culprit.confidence}, {part.kind} {part.confidence}"


def build_of(findings: Findings) -> tuple[str, str]:
    """Returns the versions of torch and Python, from the first step that records them (plain runs do not)."""
    for step in (*findings.baseline, *findings.ladder, *findings.ablation):
        if step.outcome.torch:
            return step.outcome.torch, step.outcome.python
    facts = findings.environment
    return str(facts.get("torch") or ""), str(facts.get("python") or "")


def first_bad(findings: Findings) -> Step | None:
    """Returns the lowest step of the ladder that shows the failure, or None."""
    by_rung = {step.rung: step for step in reversed(findings.ladder)}
    for rung in LONG_LADDER:
        step = by_rung.get(rung)
        if step is not None and step.verdict is Verdict.BAD:
            return step
    return next((s for s in findings.ladder if s.verdict is Verdict.BAD), None)


def last_good(findings: Findings) -> Step | None:
    """Returns the nearest passing step below the first failing one, or the highest if none fails."""
    bad = first_bad(findings)
    by_rung = {step.rung: step for step in reversed(findings.ladder)}
    step_found: Step | None = None
    for rung in LONG_LADDER:
        if bad is not None and rung is bad.rung:
            break
        step = by_rung.get(rung)
        if step is not None and step.verdict is Verdict.GOOD:
            step_found = step
    return step_found


#: The search's alternatives, as users see them.
ALTERNATIVES = {
    "meta_kernel": "a wrong meta (fake) kernel",
    "reused_graph": "a missing guard",
    "changed_mode": "a mode that the captured graph leaves changed",
    "fake_tensors": "an operator that raises on fake tensors",
    "layout": "an eager kernel that misreads strides",
    "merged_results": "aliases that AOTAutograd did not separate",
    "lost_check": "a check that the meta kernel lacks",
    "autograd_refusal": "what AOTAutograd saves or writes back",
    "plain_uncompiled": "a failure of the lab's own runs",
    "wrapper": "the wrapper that torch.compile returns",
    "python_kernel": "a decomposition of torch's Python dispatcher",
    "order_of_iterations": "an iteration order that changes the result",
    "skipped_rung": "a rung that could not be run",
    "not_monotone": "a ladder that is not monotone",
    "another_failure": "another failure below this one",
    "two_failures": "two different failures",
    "illegal_fusion": "an illegal fusion",
    "no_pair_of_its_own": "a stage that the two rungs do not isolate",
    "chosen_afterwards": "a flaky failure",
    "out_of_time": "not tested: out of time",
    "premise": "the premise",
    "instrumentation": "a failure hidden by instrumentation",
    "lab_failure": "a failure caused by the lab's instrumentation",
    "state": "state that runs leave behind",
    "random_numbers": "different random numbers, by design",
    "rounding": "different rounding, by design",
    "other_rows": "contradictory rows of the table",
    "no_reference": "a part without a reference",
    "one_box": "a part of the accelerator",
}


def alternative(name: str) -> str:
    """Returns the user-visible name of an alternative."""
    return ALTERNATIVES.get(name, name.replace("_", " "))

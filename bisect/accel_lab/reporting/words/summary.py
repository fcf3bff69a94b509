"""Builds the summary paragraph of a report, and the next steps."""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import AgreedType, Agreement, ByDesign, Culprit, Findings
from accel_lab.core.stages import Confidence, Stage
from accel_lab.core.text import capital, command_line, counted, sentence
from accel_lab.reporting import repro_reader

from . import clues, recompiles, terms, workarounds
from . import versions as since
from .evidence import line_of, words_of

#: The part at fault by stage; the component is inserted before "is" or "are".
_WHOSE: dict[Stage, str] = {
    Stage.EAGER: "torch.compile is not at fault",
    Stage.DYNAMO: "Dynamo is at fault",
    Stage.AOT_AUTOGRAD: "AOTAutograd is at fault",
    Stage.META_KERNEL: "the meta (fake) kernel is at fault",
    Stage.PARTITIONER: "the partitioner of forward and backward is at fault",
    Stage.DECOMPOSITION: "the decomposition is at fault",
    Stage.FX_PASSES: "an FX pass of Inductor is at fault",
    Stage.KERNEL: "Inductor's kernel stage is at fault",
    Stage.LOWERING: "Inductor's lowering is at fault",
    Stage.SCHEDULER: "Inductor's scheduler is at fault",
    Stage.CODEGEN: "Inductor's code generation is at fault",
    Stage.RUNTIME: "the runtime around Inductor's kernels is at fault",
    Stage.MOCK_FRONT_END: "the mock accelerator's front end is at fault",
    Stage.MOCK_BACK_END: "the mock accelerator's back end is at fault",
    Stage.MOCK_TRANSFER: "the transfers between the host and the mock accelerator are at fault",
    Stage.MOCK_RUNTIME: "the mock accelerator's runtime is at fault",
    Stage.ACCELERATOR: "the accelerator is at fault; which part of it is unknown",
    Stage.ACCELERATOR_FRONT_END: "the accelerator's front end is at fault",
    Stage.ACCELERATOR_BACK_END: "the accelerator's back end is at fault",
    Stage.ACCELERATOR_TRANSFER: "the transfers between the host and the accelerator are at fault",
    Stage.ENVIRONMENT: "the environment is at fault, neither the script nor torch",
}
_ACCELERATORS = tuple(stage for stage in Stage if stage.value.startswith(("mock.", "accelerator")))
#: Doubts of a script that may ask for eager's exact numbers.
_EXACT = (EvidenceKind.REFUSES_ROUNDINGS, EvidenceKind.RANDOM_NUMBERS_MAY_EXPLAIN)
#: Appended to the evidence, by confidence.
_HOW_SURE = {
    Confidence.PROVEN: " The failure disappears without this stage and returns with it.",
    Confidence.LIKELY: "",
    Confidence.INCONCLUSIVE: " The evidence is contradictory: treat this as a lead only.",
}


def summarise(findings: Findings) -> str:
    """Returns one paragraph: what fails, which part is at fault, and how certain that is."""
    if findings.versions and findings.versions.metric:
        return _measured(findings)
    if findings.verdict == "passes":
        return _passes(findings)
    if findings.by_design is not None:
        return _by_design(findings, findings.by_design)
    if findings.outside:
        return _outside(findings)
    failure = _failure(findings)
    if _values_vary(findings):
        parts = [
            "Nothing is known to be wrong: the script ends without an error, and what its compiled regions "
            f"return could not be compared: {_why_not(findings)}."
        ]
    elif findings.culprit is None:
        parts = [failure, f"Which stage is at fault is unknown: {_why_not(findings)}."]
    else:
        parts = [*(_fault(c, n) for n, c in enumerate(findings.culprits)), failure, clues.numbers(findings)]
    return " ".join(part for part in (*parts, _since(findings), _repro(findings)) if part)


def _failure(findings: Findings) -> str:
    """Describes the failure, shortened, and its rate; other parts of a report have the whole message."""
    signature, rate = findings.signature, findings.failure_rate
    often = f" in {rate:.0%} of its runs" if rate is not None and rate < 1.0 else ""
    if signature is None:
        return f"The script fails{often}."
    if signature.kind == "values":
        return (
            "The script ends without an error, but its compiled regions return wrong values"
            f"{often} ({terms.brief_failure(signature)})."
        )
    if clues.names_tests(signature):
        return f"The script fails{often}: {sentence(signature.said)}"
    return f"The script fails{often} with {sentence(terms.brief_failure(signature))}"


def _by_design(findings: Findings, reason: ByDesign) -> str:
    """Explains why the difference is not a bug, and what shows that."""
    failure = f" The script's failure: {findings.signature.line.rstrip('.')}." if findings.signature else ""
    shown = f" With {reason.setting} compiled and uncompiled code agree."
    return (
        "This difference is by design, not a bug of torch.compile: "
        f"{words_of(reason.why).rstrip('.')}.{shown}{failure}"
    )


def _outside(findings: Findings) -> str:
    """Returns the answer for a failure that no rung of the ladder reaches."""
    failure = f" The failure: {sentence(findings.signature.line)}" if findings.signature else ""
    why = "The failure comes from none of them, so no rung was run."
    if findings.ladder:
        why = "The rungs apply to the script's process and its forks, not to processes that it spawns."
    answer = (
        f"This is outside what the lab can bisect: {findings.outside}.{failure} The lab bisects regions that "
        f"torch.compile compiles. {why}"
    )
    return " ".join(part for part in (answer, _since(findings)) if part)


#: Stages whose component is the operator that they handle.
_NAMES_OPERATOR = (Stage.LOWERING, Stage.CODEGEN, Stage.DECOMPOSITION, Stage.META_KERNEL)


def _fault(culprit: Culprit, number: int) -> str:
    who = _blame(culprit)
    lead = capital(who) if number == 0 else f"A second fault: {who}"
    why = f" {capital(sentence(words_of(culprit.evidence[0])))}" if culprit.evidence else ""
    sure = f"{_HOW_SURE[culprit.confidence]}{_doubt(culprit)}"
    return f"{lead} ({terms.confidence_of(culprit)}).{why}{sure}{_component(culprit)}"


def _doubt(culprit: Culprit) -> str:
    """Says what keeps a likely culprit from being proven: the first explanation that is still open."""
    if culprit.confidence is not Confidence.LIKELY:
        return ""
    doubts = (one.why for one in culprit.alternatives if one.open and one.why not in culprit.evidence[:1])
    first = next(doubts, None)
    return f" Not proven: {sentence(words_of(first))}" if first is not None else ""


def _blame(culprit: Culprit) -> str:
    """Returns ``Inductor's lowering of aten.add.Tensor is at fault``."""
    whose, part = _WHOSE[culprit.stage], culprit.component
    if part is None:
        return whose
    if culprit.stage is Stage.EAGER:
        what = f"the eager kernel of {part.name}" if part.kind == "op" else f"the {part.kind} {part.name}"
        return f"{what} is at fault, not torch.compile"
    if culprit.stage is Stage.FX_PASSES and part.kind in ("pass", "pattern"):
        return f"Inductor's FX {part.kind} {part.name} is at fault"
    of_operator = part.kind in ("op", "decomposition") and culprit.stage in _NAMES_OPERATOR
    name = f" of {part.name}" if of_operator else f" ({part.kind} {part.name})"
    verb = " are " if " are at fault" in whose else " is "
    subject, _, rest = whose.partition(verb)
    return f"{subject}{name}{verb}{rest}"


#: What shows the component, by kind, if its passing run did not simply leave it out.
_PAIRS = {
    "guard": "the failure disappears when the code is recompiled whenever that value changes",
    "setting": "the failure disappears with only that setting changed",
    "cache": "the failure disappears with that cache off and returns with it on",
    "line": "the failure disappears when Dynamo's trace ends before it and returns when it ends after it",
}


def _component(culprit: Culprit) -> str:
    """States the component's confidence if it differs from the stage's."""
    part = culprit.component
    if part is None or part.confidence is culprit.confidence:
        return ""
    name = f"{part.kind} {part.name}"
    pair = _PAIRS.get(part.kind, "the failure disappears when only it is left out and returns with it")
    return {
        Confidence.PROVEN: f" The {name} is proven: {pair}.",
        Confidence.LIKELY: f" The {name} is likely, not proven.",
        Confidence.INCONCLUSIVE: f" The {name} is a lead only: its evidence is contradictory.",
    }[part.confidence]


def _since(findings: Findings) -> str:
    """Says which releases have the failure; empty if no other release was run."""
    headline = since.headline(findings.versions)
    if not headline:
        return ""
    return f"Releases of torch: {headline}."


def _repro(findings: Findings) -> str:
    """States the size of the smallest script; empty if there is none."""
    repro = repro_reader.repro_of(findings)
    if repro is None:
        return ""
    name = repro_reader.short_name(repro.path)
    if repro.lines_after is None:
        size = ""
    else:
        size = f" has {repro.lines_after} line{'' if repro.lines_after == 1 else 's'}"
        size += f" (of {repro.lines_before})" if repro.lines_before is not None else ""
    if not repro.verified:
        return f"The smallest script so far{size}, and was not run again in a fresh process: {name}."
    return f"The smallest script that shows it{size}: {name}."


def _measured(findings: Findings) -> str:
    """Returns the answer of a search for a worse number (``--metric``)."""
    versions = findings.versions
    assert versions is not None
    metric = versions.metric
    assert metric is not None
    what = f"{metric.words or metric.name} ({metric.worse_by} times or more)"
    headline = since.headline(versions)
    if findings.verdict == "fails":
        return f"A worse {what} was found: {headline}."
    if findings.verdict == "passes":
        return f"No release is worse in {what}."
    return f"No release could be measured for {what}: {headline}."


def _passes(findings: Findings) -> str:
    if not findings.baseline and findings.versions:
        tested = [row for row in since.rows_of(findings.versions) if row.mark is terms.GOOD]
        return (
            f"The script does not fail on any of the releases of torch that were tried "
            f"({', '.join(row.torch for row in tested)})."
        )
    runs = sum(step.runs for step in findings.baseline)
    compared = any(step.outcome.facts.get("regions") for step in findings.baseline)
    if findings.agreement is not None:
        means = _agrees(findings.agreement)
        tail = f"and what its compiled regions return agrees with an uncompiled run: {means}"
    elif compared:
        tail = "and no wrong value was found in what its compiled regions return"
    else:
        tail = "and it never calls a region compiled by torch.compile, so there is nothing to bisect"
    answer = f"The script does not fail: {runs} runs completed, {tail}."
    return " ".join(part for part in (answer, recompiles.sentences(findings)) if part)


def _agrees(agreement: Agreement) -> str:
    """Says what "agrees" means: the tolerance and the greatest difference of each dtype."""
    if not agreement.types:
        return (
            f"{counted(agreement.others, 'value')} compared exactly"
            if agreement.others
            else "they return no numbers"
        )
    kinds = ", ".join(_agreed(row) for row in agreement.types)
    exact = f"; {counted(agreement.others, 'other value')} compared exactly" if agreement.others else ""
    if agreement.factor is None:
        return f"every number is equal to within a tolerance relative to its own size ({kinds}{exact})"
    return (
        f"no number is further from a float64 run than {agreement.factor:g} times eager's own error, beyond "
        f"a tolerance relative to its own size ({kinds}{exact})"
    )


def _agreed(row: AgreedType) -> str:
    near = "all equal" if row.greatest == 0 else f"greatest difference {row.greatest:.2g}"
    return f"{counted(row.tensors, 'tensor')} of {row.dtype}: {near}, tolerance {row.tolerance:.2g}"


def _values_vary(findings: Findings) -> bool:
    """Whether uncompiled values vary, so that compiled values cannot be compared with them."""
    kinds = (warning.kind for warning in findings.warnings if isinstance(warning, Evidence))
    return findings.culprit is None and EvidenceKind.VALUES_VARY_UNCOMPILED in kinds


def _why_not(findings: Findings) -> str:
    if findings.unasked:
        incomplete = (line for line in map(line_of, findings.warnings) if line.startswith("out of time"))
        return next(incomplete, f"out of time before this was tested: {'; '.join(findings.unasked)}")
    if findings.warnings:
        return line_of(findings.warnings[-1])
    return "no rung of the ladder separates a passing run from a failing one"


def left_unasked(findings: Findings) -> str:
    """Returns the heading of the questions that time did not allow; empty if there are none."""
    if not findings.unasked:
        return ""
    if findings.budget_s is None:
        return "Not tested: the time for what follows the stage (12 plain runs) was used up"
    return f"Not tested: the time budget ({findings.budget_s:g} s) was used up"


def unasked_lines(findings: Findings) -> list[str]:
    """Lists the questions that time did not allow, with alternatives named for users."""
    lead = "another explanation: "
    return [
        lead + terms.alternative(line.removeprefix(lead)) if line.startswith(lead) else line
        for line in findings.unasked
    ]


def next_steps(findings: Findings) -> list[str]:
    """Lists what the reader can do now, one line each."""
    if findings.unasked and findings.artifacts:
        more = "TIME" if findings.budget_s is None else f"{2 * findings.budget_s:g}s"
        again = command_line("accel-lab", "bisect", "--resume", findings.artifacts, "--budget", more)
        return [f"Resume (finished runs are reused): {again}", *_steps(findings)]
    return _steps(findings)


def _steps(findings: Findings) -> list[str]:
    if findings.versions and findings.versions.metric:
        if findings.verdict == "fails":
            return ["Look at both sides of the release in report.html: what was counted, the generated code"]
        return ["Look for a smaller difference (--worse-by 1.1x) or another number (--metric NAME)"]
    if findings.verdict == "passes":
        return [
            "If it fails for you, run it with the interpreter that fails: --python PATH",
            "If the output is wrong, define the failure: --check CMD or --fail-regex TEXT",
        ]
    if findings.by_design is not None:
        return [
            f"To see both agree: {findings.by_design.setting}",
            "Compare with a tolerance, or compare distributions, instead of exact values",
        ]
    culprit = findings.culprit
    if findings.outside and findings.ladder:
        return [
            "Bisect the command that the script starts: accel-lab bisect THAT_SCRIPT [ARGUMENTS]",
            "Or let the script call that code in its own process",
        ]
    if findings.outside:
        return [
            *workarounds.plain_lines(findings),
            "Report it with the traceback: the part of torch that raised is named above",
            "To bisect the same code, compile it with torch.compile(..., fullgraph=True): if that fails as "
            "well, the lab can find the stage",
        ]
    if culprit is None:
        again = "Run again with more time (--timeout SECONDS) or without the warm server (--cold)"
        return [
            *_run_repro(findings),
            *([] if findings.unasked else [again]),
            "Define the failure: --check CMD or --fail-regex TEXT",
        ]
    if culprit.stage is Stage.ENVIRONMENT:
        return ["Fix the environment as the evidence says, then run the script again"]
    steps = workarounds.plain_lines(findings)
    if culprit.stage is Stage.EAGER:
        far = any(one.kind is EvidenceKind.EAGER_FAR_FROM_FLOAT64 for one in culprit.evidence)
        steps.append(
            "Report the operator: compare its eager result with one in float64"
            if far
            else "Look at the script itself, or report the operator: it fails without torch.compile"
        )
    steps += _run_repro(findings)
    if culprit.stage in _ACCELERATORS:
        steps += [
            f"The kernel by itself: {e.text.strip()}" for e in culprit.exhibits if e.kind == "kernel_script"
        ]
    elif culprit.stage is not Stage.EAGER:
        if any(one.kind in _EXACT for one in culprit.evidence):
            steps.append(
                "First let the check allow other numbers that are as good: if it passes, it is no bug"
            )
        steps.append("Attach the bundle to an issue: ISSUE.md in it fills in PyTorch's template")
    return steps


def _run_repro(findings: Findings) -> list[str]:
    """Says how to run the smallest script, if it was verified and its exit code shows the failure."""
    repro = repro_reader.repro_of(findings)
    if repro is None or not repro.verified or not repro.exits:
        return []
    return [f"{repro.command(repro.path)} {repro.exits}"]

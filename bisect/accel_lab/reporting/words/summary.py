"""The answer in one clear paragraph, and what to do next."""

from __future__ import annotations

from accel_lab.core.findings import AgreedType, Agreement, ByDesign, Culprit, Findings
from accel_lab.core.stages import Confidence, Stage
from accel_lab.core.text import sentence
from accel_lab.core.verdict import Verdict
from accel_lab.reporting import repro_reader

from . import clues, recompiles, terms
from . import versions as since

_WHOSE: dict[Stage, str] = {
    Stage.EAGER: "torch.compile is not to blame",
    Stage.DYNAMO: "Dynamo, which captures the script's Python, is at fault",
    Stage.AOT_AUTOGRAD: "AOTAutograd is at fault",
    Stage.META_KERNEL: "a meta (fake) kernel is at fault",
    Stage.PARTITIONER: "the partitioner, which splits forward from backward, is at fault",
    Stage.DECOMPOSITION: "a decomposition is at fault",
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
    Stage.ACCELERATOR: "the accelerator is at fault; which part of it cannot be told",
    Stage.ACCELERATOR_FRONT_END: "the accelerator's front end is at fault",
    Stage.ACCELERATOR_BACK_END: "the accelerator's back end is at fault",
    Stage.ACCELERATOR_TRANSFER: "the transfers between the host and the accelerator are at fault",
    Stage.ENVIRONMENT: "the environment is at fault, not the script and not torch",
}
_ACCELERATORS = tuple(stage for stage in Stage if stage.value.startswith(("mock.", "accelerator")))
_HOW_SURE = {
    Confidence.PROVEN: "This is proven: with that part out it passes, with it back in it fails.",
    Confidence.LIKELY: "This is likely, not proven.",
    Confidence.INCONCLUSIVE: "The evidence is contradictory, so take it as a lead only.",
}


def summarise(findings: Findings) -> str:
    """One paragraph: what fails, whose fault it is, and how sure that is."""
    if findings.versions and findings.versions.get("metric"):
        return _measured(findings)
    if findings.verdict == "passes":
        return _passes(findings)
    if findings.by_design is not None:
        return _by_design(findings, findings.by_design)
    if findings.outside:
        return _outside(findings)
    failure = findings.signature.line if findings.signature else "the failure"
    rate = findings.failure_rate
    often = f" in {rate:.0%} of its runs" if rate is not None and rate < 1.0 else ""
    if findings.signature is not None and findings.signature.kind == "values":
        head = f"The script ends well but its compiled regions return wrong values{often} ({failure})."
    elif clues.names_tests(findings.signature):
        head = f"The script fails{often}: {sentence(findings.signature.said if findings.signature else '')}"
    else:
        head = f"The script fails{often} with {sentence(failure)}"
    if findings.culprit is None:
        told = f"{head} Which stage is at fault cannot be told: {_why_not(findings)}."
        return " ".join(part for part in (told, _since(findings), _repro(findings)) if part)
    faults = [_fault(c, n) for n, c in enumerate(findings.culprits)]
    parts = [head, *faults, clues.numbers(findings), _since(findings), _repro(findings)]
    return " ".join(part for part in parts if part)


def _by_design(findings: Findings, found: ByDesign) -> str:
    """Why it is no bug, and what shows that."""
    failure = f" The script's failure: {findings.signature.line.rstrip('.')}." if findings.signature else ""
    shown = f" With {found.setting} compiled and uncompiled code agree."
    return (
        "This difference is by design, not a bug of torch.compile: "
        f"{found.words.rstrip('.')}.{shown}{failure}"
    )


def _outside(findings: Findings) -> str:
    """The answer where no rung of the ladder reaches what fails."""
    failure = f" The failure: {sentence(findings.signature.line)}" if findings.signature else ""
    told = (
        f"This is outside what the lab can bisect: {findings.outside}.{failure} The lab bisects what "
        "torch.compile compiles, and the failure comes from no such region, so no rung was run."
    )
    return " ".join(part for part in (told, _since(findings)) if part)


def _fault(culprit: Culprit, number: int) -> str:
    who = _WHOSE[culprit.stage]
    lead = who[0].upper() + who[1:] if number == 0 else f"Behind it lies another fault: {who}"
    part = ""
    if culprit.component is not None:
        part = f" ({culprit.component.kind} {culprit.component.name})"
    why = f": {sentence(culprit.evidence[0])}" if culprit.evidence else "."
    return f"{lead}{part}{why} {_HOW_SURE[culprit.confidence]}{_component(culprit)}"


#: What the pair of runs changed, where it was not to leave the component out.
_PAIRS = {
    "guard": "compiled afresh whenever that changes it passes, otherwise it fails",
    "setting": "with only that set it passes, without it fails",
    "cache": "with it on the script fails, with it off it passes",
    "line": "with Dynamo's trace ended before it the script passes, with it ended behind it it fails",
}


def _component(culprit: Culprit) -> str:
    """How sure the component is, where that is another thing than how sure the stage is."""
    part = culprit.component
    if part is None or part.confidence is culprit.confidence:
        return ""
    name = f"{part.kind} {part.name}"
    pair = _PAIRS.get(part.kind, "with only it left out it passes, with it back it fails")
    return {
        Confidence.PROVEN: f" The {name} is proven: {pair}.",
        Confidence.LIKELY: f" That it is the {name} is likely, not proven.",
        Confidence.INCONCLUSIVE: f" The {name} is a lead only: the evidence on it is contradictory.",
    }[part.confidence]


def _since(findings: Findings) -> str:
    """Which releases have it, in one sentence; empty where no others were asked."""
    told = since.headline(findings.versions)
    if not told:
        return ""
    return f"On the line of releases: {told}."


def _repro(findings: Findings) -> str:
    """What the smallest script takes, in one sentence; empty when there is none."""
    found = repro_reader.repro_of(findings)
    if found is None:
        return ""
    name = repro_reader.short_name(found.path)
    if found.lines_after is None:
        size = ""
    else:
        size = f" has {found.lines_after} line{'' if found.lines_after == 1 else 's'}"
        size += f" (of {found.lines_before})" if found.lines_before is not None else ""
    if not found.verified:
        return f"The smallest script so far{size}, and was not run again in a fresh process: {name}."
    return f"The smallest script that shows it{size}: {name}."


def _measured(findings: Findings) -> str:
    """The answer where a number was looked for."""
    versions = findings.versions or {}
    metric = versions["metric"]
    what = f"{metric.get('words', metric.get('name'))} ({metric.get('worse_by')} times or more)"
    told = since.headline(versions)
    if findings.verdict == "fails":
        return f"A worse {what} was found on the line of releases: {told}."
    if findings.verdict == "passes":
        return f"No release is worse in {what}."
    return f"No release could be measured for {what}: {told}."


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
        tail = "and nothing in what its compiled regions return was found wrong"
    else:
        tail = "and it never calls a region compiled by torch.compile, so there is nothing to bisect"
    told = f"The script does not fail: {runs} runs ended well, {tail}."
    return " ".join(part for part in (told, recompiles.sentences(findings)) if part)


def _agrees(told: Agreement) -> str:
    """What "agrees" means, in the numbers that were compared."""
    if not told.types:
        return f"{_count(told.others, 'value')} compared exactly" if told.others else "they return no numbers"
    kinds = ", ".join(_agreed(row) for row in told.types)
    exact = f"; {_count(told.others, 'other value')} compared exactly" if told.others else ""
    if told.factor is None:
        return f"every number is equal to within a tolerance relative to its own size ({kinds}{exact})"
    return (
        f"no number is further from a float64 run than {told.factor:g} times eager's own error, beyond a "
        f"tolerance relative to its own size ({kinds}{exact})"
    )


def _agreed(row: AgreedType) -> str:
    near = "all equal" if row.greatest == 0 else f"greatest difference {row.greatest:.2g}"
    return f"{_count(row.tensors, 'tensor')} of {row.dtype}: {near}, tolerance {row.tolerance:.2g}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _why_not(findings: Findings) -> str:
    if findings.warnings:
        return findings.warnings[-1]
    return "no rung of the ladder separates a passing run from a failing one"


def next_steps(findings: Findings) -> list[str]:
    """What the reader can do now, in a few lines."""
    if findings.versions and findings.versions.get("metric"):
        if findings.verdict == "fails":
            return ["Look at both sides of the release in report.html: what was counted, the generated code"]
        return ["Ask for a smaller difference: --worse-by 1.1x; or for another number: --metric NAME"]
    if findings.verdict == "passes":
        return [
            "If it fails for you, run it with the interpreter that fails: --python PATH",
            "If you know wrong output when you see it, say so: --check CMD or --fail-regex TEXT",
        ]
    if findings.by_design is not None:
        return [
            f"To see both agree: {findings.by_design.setting}",
            "Compare with a tolerance, or compare distributions, instead of exact values",
        ]
    culprit = findings.culprit
    if findings.outside:
        return [
            *since.advice(findings.versions),
            "Report it with the traceback: the part of torch that raised is named above",
            "To bisect the same code, call it by torch.compile(..., fullgraph=True): if that fails as well, "
            "the lab can tell the stage",
        ]
    if culprit is None:
        return [
            *_run_repro(findings),
            "Ask again with more time: --timeout SECONDS, or without the warm server: --cold",
            "Tell the lab what the failure is: --check CMD or --fail-regex TEXT",
        ]
    if culprit.stage is Stage.ENVIRONMENT:
        return ["Mend the environment as the evidence says, then run the script again"]
    steps = since.advice(findings.versions)
    if culprit.stage is Stage.EAGER:
        steps.append("Look at the script itself, or report the operator: it fails without torch.compile")
    else:
        steps += _workarounds(findings)
    steps += _run_repro(findings)
    if culprit.stage in _ACCELERATORS:
        steps += [
            f"The kernel by itself: {e.text.strip()}" for e in culprit.exhibits if e.kind == "kernel_script"
        ]
    elif culprit.stage is not Stage.EAGER:
        steps.append("Attach the bundle to an issue: ISSUE.md in it fills in PyTorch's template")
    return steps


def _run_repro(findings: Findings) -> list[str]:
    """How to see the failure by the smallest script, if that was verified and its end shows it."""
    found = repro_reader.repro_of(findings)
    if found is None or not found.verified or not found.exits:
        return []
    return [f"{found.command(found.path)} {found.exits}"]


def _workarounds(findings: Findings) -> list[str]:
    """Changes with which it was seen to pass, the narrowest first; what was not run is not advised."""
    part = findings.culprit.component if findings.culprit is not None else None
    if part is not None and part.kind == "cache":
        return [f"Until it is fixed: {part.name} = False passes"]
    if part is not None and part.cure:
        return [f"Until it is fixed: {part.cure} passes"]
    narrow = _left_out(findings.culprit) if findings.culprit is not None else []
    for step in findings.ablation:
        settings = dict(step.settings).get("inductor")
        if step.verdict is Verdict.GOOD and step.switch != "fallback" and isinstance(settings, dict):
            listed = ", ".join(f'"{key}": {value!r}' for key, value in settings.items())
            return [
                *narrow,
                f"Until it is fixed: torch.compile(..., options={{{listed}}}) passes ({step.label})",
            ]
    backend = terms.passing_backend(findings)
    more = " (a wider one)" if narrow else ""
    wide = [f'Until it is fixed: torch.compile(..., backend="{backend}") passes{more}'] if backend else []
    return [*narrow, *wide]


#: Components that the search leaves out alone, and what is then the case.
_LEFT_OUT = {
    "pattern": "the pattern {} is not applied",
    "pass": "the FX pass {} is not run",
    "decomposition": "{} is not decomposed",
    "op": "{} runs as the eager operator",
}
_OF_OPERATORS = (Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL)


def _left_out(culprit: Culprit) -> list[str]:
    """The component that alone was left out, where that was shown to cure."""
    part = culprit.component
    if part is None or part.kind not in _LEFT_OUT or part.confidence is not Confidence.PROVEN:
        return []
    if part.kind == "op" and culprit.stage not in _OF_OPERATORS:
        return []
    return [f"It passes with nothing else changed if {_LEFT_OUT[part.kind].format(part.name)}"]

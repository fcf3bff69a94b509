"""Proposes workarounds from what the search knows of the failure, narrowest change first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accel_lab.core import torch_settings as settings
from accel_lab.core.evidence import EvidenceKind
from accel_lab.core.findings import Component, Culprit, Findings
from accel_lab.core.stages import LADDER, Rung, Stage
from accel_lab.core.verdict import Verdict

from .script_edits import Edited, cloned_arguments, compiled_functions, disabled, paste, with_argument

_OF_OPERATORS = (Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL)
_FRONT = (Stage.DYNAMO, Stage.AOT_AUTOGRAD, Stage.PARTITIONER)
#: An operator with its overload, and a file of torch's sources.
_OPERATOR = re.compile(r"(?<!\w)[a-z_]\w*\.[A-Za-z_]\w*\.[A-Za-z_]\w*")
_PLACE = re.compile(r"torch/[\w/]+\.py")
#: The width from which on nothing is compiled, so there is no cost over eager to measure.
UNCOMPILED = 8
_MOST_SETTINGS = 2
_MOST_OPERATORS = 3


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A workaround that has not been run yet. ``width`` says how much it disables; less is tried first."""

    kind: str
    edited: Edited
    where: str
    words: str
    width: int

    @property
    def code(self) -> str:
        return "\n".join(self.edited.lines)


def candidates(findings: Findings, source: str) -> list[Candidate]:
    """Returns the workarounds to try on the script ``source``, without repeats, narrowest first."""
    culprit = findings.culprit
    if culprit is None or culprit.stage in (Stage.EAGER, Stage.ENVIRONMENT):
        return []
    found: dict[str, Candidate] = {}
    for one in (*_narrow(findings, culprit, source), *_wide(findings, culprit, source)):
        found.setdefault(one.edited.text, one)
    return sorted(found.values(), key=lambda one: one.width)


def _pasted(source: str, lines: Sequence[str], *, kind: str, words: str, width: int) -> Iterator[Candidate]:
    edited = paste(source, lines) if lines and all(lines) else None
    if edited is not None:
        yield Candidate(kind=kind, edited=edited, where="paste", words=words, width=width)


def _changed(edited: Edited | None, *, kind: str, words: str, width: int) -> Iterator[Candidate]:
    if edited is not None:
        yield Candidate(kind=kind, edited=edited, where="edit", words=words, width=width)


# -- what the component says ---------------------------------------------------------------------------


def _narrow(findings: Findings, culprit: Culprit, source: str) -> Iterator[Candidate]:
    part = culprit.component
    if part is not None:
        yield from _of_component(culprit, part, source, _release(findings))
    rows = [
        (step, dict(step.settings).get("inductor"))
        for step in findings.ablation
        if step.verdict is Verdict.GOOD and step.switch != "fallback"
    ]
    known = [(step, values) for step, values in rows if isinstance(values, dict) and values]
    for step, values in sorted(known, key=lambda row: len(row[1]))[:_MOST_SETTINGS]:
        lines = settings.inductor_lines(values)
        yield from _pasted(source, lines, kind="setting", words=step.label or step.switch, width=2)


def _release(findings: Findings) -> str:
    """Returns the failing torch release; empty if no run reports it."""
    return next((step.outcome.torch for step in findings.baseline if step.outcome.torch), "")


def _of_component(culprit: Culprit, part: Component, source: str, release: str) -> Iterator[Candidate]:
    if part.kind == "cache":
        yield from _pasted(
            source, [f"{part.name} = False"], kind="setting", words="that cache is not used", width=1
        )
    if re.fullmatch(r"torch[\w.]+ = .+", part.cure):
        yield from _pasted(source, [part.cure], kind="setting", words="one setting", width=1)
    disable = part.cure.removeprefix("torch.compiler.disable on ")
    if disable != part.cure:
        yield from _disabled(source, disable)
    if part.kind == "decomposition" or (part.kind == "op" and culprit.stage in _OF_OPERATORS):
        native = _traced_natively(culprit)
        operators = native[:1] or _OPERATOR.findall(part.name)[:_MOST_OPERATORS]
        for operator in operators:
            lines = settings.fallback_lines(operator, decomposed=part.kind == "decomposition", native=native)
            yield from _pasted(
                source,
                [*lines, *settings.cache_lines(f"{operator} eager", release)],
                kind="fallback",
                words=f"{operator} runs as the eager operator",
                width=1,
            )
    if culprit.stage is Stage.FX_PASSES:
        yield from _passes(part, source, release)
    if part.kind == "guard":
        hooks = part.name.startswith("hooks(")
        for setting in (settings.GUARD_HOOKS,) if hooks else settings.MORE_GUARDS:
            yield from _pasted(source, [setting.code], kind="setting", words="Dynamo guards more", width=3)


def _traced_natively(culprit: Culprit) -> list[str]:
    """Returns the operators whose Python kernels were removed for the passing run; empty if none were."""
    for one in culprit.evidence:
        if one.kind is EvidenceKind.PYTHON_KERNEL_TRACED:
            under = one.facts.get("under")
            names = [one.facts.get("operator"), *(under if isinstance(under, (list, tuple)) else ())]
            return [name for name in names if isinstance(name, str) and _OPERATOR.fullmatch(name)]
    return []


def _passes(part: Component, source: str, release: str) -> Iterator[Candidate]:
    """Yields the pass itself, then the pattern matcher, then the group of passes that it belongs to."""
    name, _, operator = part.name.partition(" of ")  # the name of a reinplacing pass includes its operator
    files = _PLACE.findall(part.detail) if part.kind == "pass" else []
    if part.kind == "reinplacing" and operator:
        files = [settings.REINPLACING]
    for file in dict.fromkeys(files):
        lines = settings.pass_lines(name, file)
        lines += settings.cache_lines(f"without {name}", release) if lines else []
        yield from _pasted(source, lines, kind="pass", words=f"the FX pass {name} is not run", width=1)
    if part.kind == "pattern":
        lines = [settings.NO_PATTERNS.code]
        yield from _pasted(source, lines, kind="pass", words="no pattern is replaced", width=2)
    for phase, setting in settings.PASS_GROUPS.items():
        if phase in part.detail:
            words = f"no {phase} pass is run"
            yield from _pasted(source, [setting.code], kind="pass", words=words, width=3)


def _disabled(source: str, function: str) -> Iterator[Candidate]:
    edited = disabled(source, function)
    yield from _changed(edited, kind="disable", words=f"{function} is left uncompiled", width=4)


# -- what the ladder says ------------------------------------------------------------------------------


def _wide(findings: Findings, culprit: Culprit, source: str) -> Iterator[Candidate]:
    if culprit.stage in _FRONT and _shapes_may_matter(findings):
        for value in ("False", "True"):
            words = "every shape is static" if value == "False" else "every shape is symbolic"
            yield from _changed(with_argument(source, "dynamic", value), kind="dynamic", words=words, width=5)
    guard = culprit.component is not None and culprit.component.kind == "guard"
    if guard or culprit.stage is Stage.AOT_AUTOGRAD:
        # pytorch#139789: no guard says that two arguments do not overlap; AOTAutograd merges those that do.
        words = "each tensor argument is copied"
        yield from _changed(cloned_arguments(source), kind="clone", words=words, width=5)
    backend = passing_backend(findings)
    if backend:
        edited = with_argument(source, "backend", repr(backend))
        words = "Inductor makes no kernels" if backend != "eager" else "only Dynamo's capture is used"
        yield from _changed(edited, kind="backend", words=words, width=6)
    for function in compiled_functions(source)[:1]:
        edited = disabled(source, function)
        yield from _changed(edited, kind="disable", words=f"{function} is not compiled at all", width=7)
    if findings.signature is not None and findings.signature.kind != "values":
        # Of a silent failure there is nothing to compare then.
        edited = with_argument(source, "disable", "True")
        yield from _changed(edited, kind="disable", words="torch.compile does nothing", width=UNCOMPILED)
        lines = [settings.NO_DYNAMO.code]
        yield from _pasted(source, lines, kind="disable", words="nothing is compiled", width=UNCOMPILED + 1)


def _shapes_may_matter(findings: Findings) -> bool:
    """Whether ``dynamic=`` may help: it was given, code was compiled again, or that is unknown."""
    known = [step.outcome.facts for step in findings.baseline if "compiles" in step.outcome.facts]
    return not known or any(
        facts["compiles"].get("again")
        or any(one.get("dynamic") is not None for one in facts.get("regions") or ())
        for facts in known
    )


def passing_backend(findings: Findings) -> str:
    """Returns the most complete torch backend of the passing rungs below the first failing one; or ""."""
    by_rung = {step.rung: step.verdict for step in findings.ladder}
    backend = ""
    for rung in LADDER:
        if rung is Rung.KERNEL or by_rung.get(rung) in (Verdict.BAD, Verdict.DIFFERENT):
            break
        if by_rung.get(rung) is Verdict.GOOD and rung.record.torch_backend:
            backend = rung.record.torch_backend
    return backend

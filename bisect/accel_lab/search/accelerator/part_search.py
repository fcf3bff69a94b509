"""Searches an accelerator's parts: replaces each one alone and reads the table of verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.stages import Confidence, Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.bisection import Pair
from accel_lab.search.localize.localization import Localization
from accel_lab.search.premise import wrong_values
from accel_lab.search.proof import Proof

from .case import Case, culprit_of_script, fails_by_itself
from .kernel import name_kernel
from .replacements import COMBINATIONS, LABELS, Ask, Reading, read_table, switches
from .steps import name_step

#: Settings whose change can hide a fault although they are not its cause.
_SETTINGS = (Ask.SCRATCHPAD, Ask.CORES, Ask.POISON, Ask.CACHE)


def search_parts(case: Case, parts: Sequence[Ask]) -> None:
    """Names the part at fault, as far as replacing ``parts`` can show it."""
    found, main = case.findings, switches(Ask.MAIN, case.accelerator)
    plain = case.runner.one(Rung.UNCOMPILED, main)
    found.ladder = [plain, case.top]
    if fails_by_itself(plain):
        found.culprits = [culprit_of_script(plain)]
        case.pair = Pair(bad=(Rung.UNCOMPILED, main))
        return
    _PartSearch(case, parts).run()
    _say_which_backend(case, found.ladder[-1])


def _say_which_backend(case: Case, top: Step) -> None:
    """Warns if the script as written does not use the accelerator's backend."""
    backends = sorted({str(region.get("backend")) for region in top.outcome.facts.get("regions", ())})
    if case.accelerator.is_mock and backends and backends != ["mock"]:
        case.findings.warnings.append(
            f"the script asks for {', '.join(backends)}: outside of the lab it fails only with "
            'torch.compile(..., backend="mock")'
        )


class _PartSearch:
    def __init__(self, case: Case, parts: Sequence[Ask]) -> None:
        self._case = case
        self._parts = parts
        self._rows: dict[Ask, Step] = {Ask.MAIN: case.top}

    def run(self) -> None:
        case, found, rows = self._case, self._case.findings, self._rows
        accelerator = case.accelerator
        asked = case.runner.ask(
            ((accelerator.rung, switches(ask, accelerator)) for ask in self._parts), "accelerator"
        )
        rows.update(
            (ask, replace(step, switch=ask.value, label=LABELS[ask]))
            for ask, step in zip(self._parts, asked, strict=True)
        )
        self._show()
        reading = read_table({ask: step.verdict for ask, step in rows.items()}, accelerator)
        found.warnings += reading.contradictions
        if reading.stage is None or reading.out is None:
            if not reading.contradictions:
                found.warnings.append(
                    "it fails with both front ends and both back ends, and with every single part replaced: "
                    "shared code or the environment may be at fault"
                )
            return
        proof, evidence = self._prove(reading, reading.out)
        case.pair = Pair(
            bad=(accelerator.rung, switches(Ask.MAIN, accelerator)),
            good=(accelerator.rung, switches(reading.out, accelerator)),
            without=LABELS[reading.out],
        )
        passing = [LABELS[ask] for ask in _SETTINGS if ask in rows and rows[ask].verdict is Verdict.GOOD]
        if passing:
            evidence.append(Evidence.of(EvidenceKind.PASSES_WITH_PARTS, parts=passing))
        culprit = Culprit(
            stage=reading.stage,
            confidence=proof.confidence,
            component=_part(reading, proof.confidence),
            evidence=(*reading.evidence, *evidence, *wrong_values(case.base.values)),
            alternatives=(*case.base.alternatives, *reading.alternatives),
        )
        found.culprits = [culprit]
        self._show()
        if case.components:
            found.culprits = [self._with_component(culprit, reading)]

    def _with_component(self, culprit: Culprit, reading: Reading) -> Culprit:
        """Returns the culprit with the transfer, host call or kernel that is wrong first."""
        case = self._case
        named = name_step(case, reading)
        is_step = named.component is not None
        if not is_step:
            named = _joined(named, name_kernel(case, reading))
        return replace(
            culprit,
            component=named.component if is_step else culprit.component or named.component,
            evidence=(*culprit.evidence, *named.evidence),
            exhibits=tuple(named.exhibits),
        )

    def _show(self) -> None:
        found = self._case.findings
        found.ladder[-1] = self._rows[Ask.MAIN]
        found.ablation = [step for ask, step in self._rows.items() if ask is not Ask.MAIN]

    def _prove(self, reading: Reading, out: Ask) -> tuple[Proof, list[Evidence]]:
        """Repeats the pair: with the culprit it must fail, with the culprit replaced it must pass."""
        rows = self._rows
        # If one end was replaced, the row with both ends replaced lacks the culprit as well.
        both = rows.get(Ask.BOTH)
        elsewhere = 0
        if both is not None and both.verdict is Verdict.GOOD and out in COMBINATIONS and out is not Ask.BOTH:
            elsewhere = both.runs
        bad, good, proof = self._case.prove(
            rows[Ask.MAIN],
            rows[out],
            [step for ask, step in rows.items() if ask is not Ask.MAIN],
            comparisons=len(self._parts),
            alternatives=reading.alternatives,
            passed_elsewhere=elsewhere,
        )
        rows[Ask.MAIN], rows[out] = bad, good
        if good.verdict is not Verdict.GOOD or bad.verdict is not Verdict.BAD:
            self._case.findings.warnings.append("a row that passed failed when repeated")
        return proof, [
            Evidence.of(
                EvidenceKind.PARTS_REPEATED,
                main=LABELS[Ask.MAIN],
                failures=bad.failures,
                runs=bad.runs,
                replaced=LABELS[out],
                passes=good.runs - good.failures,
                passing_runs=good.runs,
            )
        ]


def _part(reading: Reading, confidence: Confidence) -> Component | None:
    if reading.part is None:
        return None
    kind, name = reading.part
    return Component(kind=kind, name=name, confidence=confidence)


def _joined(one: Localization, two: Localization) -> Localization:
    """Joins two localizations: the second one's component, the evidence of both."""
    return replace(two, evidence=[*one.evidence, *two.evidence], exhibits=[*one.exhibits, *two.exhibits])

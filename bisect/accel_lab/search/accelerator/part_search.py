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
from .replacements import COMBINATIONS, LABELS, Reading, Replacement, read_table, switches
from .steps import name_step

#: Settings whose change can hide a fault although they are not its cause.
_SETTINGS = (Replacement.SCRATCHPAD, Replacement.CORES, Replacement.POISON, Replacement.CACHE)


def search_parts(case: Case, parts: Sequence[Replacement]) -> None:
    """Names the part at fault, as far as replacing ``parts`` can show it."""
    found, main = case.findings, switches(Replacement.MAIN, case.accelerator)
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
    def __init__(self, case: Case, parts: Sequence[Replacement]) -> None:
        self._case = case
        self._parts = parts
        self._rows: dict[Replacement, Step] = {Replacement.MAIN: case.top}

    def run(self) -> None:
        case, found, rows = self._case, self._case.findings, self._rows
        accelerator = case.accelerator
        asked = case.runner.ask(
            ((accelerator.rung, switches(row, accelerator)) for row in self._parts), "accelerator"
        )
        rows.update(
            (row, replace(step, switch=row.value, label=LABELS[row]))
            for row, step in zip(self._parts, asked, strict=True)
        )
        self._show()
        reading = read_table({row: step.verdict for row, step in rows.items()}, accelerator)
        found.warnings += reading.contradictions
        if reading.stage is None or reading.passing_row is None:
            if not reading.contradictions:
                found.warnings.append(
                    "it fails with both front ends and both back ends, and with every single part replaced: "
                    "shared code or the environment may be at fault"
                )
            return
        proof, evidence = self._prove(reading, reading.passing_row)
        case.pair = Pair(
            bad=(accelerator.rung, switches(Replacement.MAIN, accelerator)),
            good=(accelerator.rung, switches(reading.passing_row, accelerator)),
            without=LABELS[reading.passing_row],
        )
        passing = [LABELS[row] for row in _SETTINGS if row in rows and rows[row].verdict is Verdict.GOOD]
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
        found.ladder[-1] = self._rows[Replacement.MAIN]
        found.ablation = [step for row, step in self._rows.items() if row is not Replacement.MAIN]

    def _prove(self, reading: Reading, out: Replacement) -> tuple[Proof, list[Evidence]]:
        """Repeats the pair: with the culprit it must fail, with the culprit replaced it must pass."""
        rows = self._rows
        # If one end was replaced, the row with both ends replaced lacks the culprit as well.
        both = rows.get(Replacement.BOTH)
        elsewhere = 0
        if (
            both is not None
            and both.verdict is Verdict.GOOD
            and out in COMBINATIONS
            and out is not Replacement.BOTH
        ):
            elsewhere = both.runs
        bad, good, proof = self._case.prove(
            rows[Replacement.MAIN],
            rows[out],
            [step for row, step in rows.items() if row is not Replacement.MAIN],
            comparisons=len(self._parts),
            alternatives=reading.alternatives,
            passed_elsewhere=elsewhere,
        )
        rows[Replacement.MAIN], rows[out] = bad, good
        if good.verdict is not Verdict.GOOD or bad.verdict is not Verdict.BAD:
            self._case.findings.warnings.append("a row that passed failed when repeated")
        return proof, [
            Evidence.of(
                EvidenceKind.PARTS_REPEATED,
                main=LABELS[Replacement.MAIN],
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

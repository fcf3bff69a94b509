"""The whole search below an accelerator: premise, four combinations, single replacements, proof, kernel."""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.findings import Component, Culprit, Findings, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import environment_hints
from accel_lab.search.bisection import Bisection, Pair
from accel_lab.search.ladder_runner import LadderRunner, tally_of
from accel_lab.search.localize.localization import Localization
from accel_lab.search.premise import Baseline
from accel_lab.search.proof import Proof, prove_again

from .kernel import name_kernel
from .premise import Premise
from .replacements import ABLATIONS, COMBINATIONS, LABELS, Ask, Reading, read_table, switches
from .steps import name_step


class AcceleratorDiagnosis(Bisection):
    """Bisects a program on the mock accelerator."""

    def run(self) -> Findings:
        """All that can be found out; ``findings`` is filled as it goes."""
        found = self.findings
        base = self.baseline = Premise(
            self._lab, replace(self._probe, rung=Rung.MOCK, switches=switches(Ask.MAIN))
        ).run()
        self._take_baseline(base, len(base.steps) + 1)
        self._seeded(base)
        if base.target is None:
            found.verdict = "inconclusive" if base.doubtful else "passes"
            return found
        runner = self._ladder_runner(base)
        plain = runner.one(Rung.UNCOMPILED, switches(Ask.MAIN))
        found.ladder = [plain, self._top(base)]
        if plain.verdict in (Verdict.BAD, Verdict.DIFFERENT):
            found.culprits = [self._of_script(plain)]
            self.pair = Pair(bad=(Rung.UNCOMPILED, switches(Ask.MAIN)))
            found.verdict = "fails"
            return found
        self._search(runner, base)
        self._other_backend(found.ladder[-1])
        found.verdict = "fails" if found.culprits else "inconclusive"
        return found

    # -- bookkeeping ---------------------------------------------------------------------------

    def _seeded(self, base: Baseline) -> None:
        """Say which faults are on: nothing that they cause is the program's or the accelerator's doing."""
        told = [step.outcome.facts.get("mock", {}).get("faults", ()) for step in base.steps]
        faults = sorted({fault for entry in told for fault in entry})
        if faults:
            self.findings.warnings.append("seeded faults are on (MOCK_FAULTS): " + ", ".join(faults))

    def _other_backend(self, top: Step) -> None:
        """Say it where the script by itself does not run on the accelerator."""
        backends = sorted({str(region.get("backend")) for region in top.outcome.facts.get("regions", ())})
        if backends and backends != ["mock"]:
            self.findings.warnings.append(
                f"the script asks for {', '.join(backends)}: outside of the lab it fails only with "
                'torch.compile(..., backend="mock")'
            )

    @staticmethod
    def _top(base: Baseline) -> Step:
        failing = [step for step in base.steps if step.verdict is Verdict.BAD]
        warm = [step for step in failing if step.outcome.warm]
        return replace((warm or failing)[-1], label="", runs=base.tally.runs, failures=base.tally.failures)

    @staticmethod
    def _of_script(plain: Step) -> Culprit:
        """It fails with nothing compiled: the accelerator is not to blame."""
        early = environment_hints.of_script(plain.outcome)
        if early is not None:
            return early
        same = "in the same way" if plain.verdict is Verdict.BAD else "in another way"
        return Culprit(
            stage=Stage.EAGER,
            confidence=Confidence.LIKELY,
            evidence=(
                f"the script fails {same} when nothing is compiled, so no accelerator is needed for it",
            ),
        )

    # -- the search ----------------------------------------------------------------------------

    def _search(self, runner: LadderRunner, base: Baseline) -> None:
        found = self.findings
        top = found.ladder[-1]
        rows = {Ask.MAIN: top}
        asks = (*COMBINATIONS, *ABLATIONS)
        steps = runner.ask(((Rung.MOCK, switches(ask)) for ask in asks), "accelerator")
        rows.update(
            zip(asks, (_named(step, ask) for step, ask in zip(steps, asks, strict=True)), strict=True)
        )
        self._show(rows)
        reading = read_table({ask: step.verdict for ask, step in rows.items()})
        found.warnings += reading.contradictions
        if reading.stage is None:
            if not reading.contradictions:
                found.warnings.append(
                    "it fails with both front ends and both back ends, and with every single part replaced: "
                    "what they share, or the surroundings, may be at fault"
                )
            return
        proof, evidence = self._prove(runner, base, rows, reading)
        assert reading.out is not None
        self.pair = Pair(
            bad=(Rung.MOCK, switches(Ask.MAIN)),
            good=(Rung.MOCK, switches(reading.out)),
            without=LABELS[reading.out],
        )
        cured = [
            LABELS[ask]
            for ask in (Ask.SCRATCHPAD, Ask.CORES, Ask.POISON, Ask.CACHE)
            if rows[ask].verdict is Verdict.GOOD
        ]
        if cured:
            evidence.append("it passes with " + ", and with ".join(cured))
        culprit = Culprit(
            stage=reading.stage,
            confidence=proof.confidence,
            component=self._part(reading, proof.confidence),
            evidence=(*reading.evidence, *evidence, *(d.line for d in base.values[:2])),
            alternatives=(*base.alternatives, *reading.alternatives),
        )
        found.culprits = [culprit]
        self._show(rows)
        if self._options.components:
            named = name_step(runner, reading, switches(Ask.MAIN))
            if named.component is None:
                named = _joined(named, name_kernel(runner, reading, switches(Ask.MAIN)))
            step = named.component is not None and reading.out in (Ask.TRANSFER, Ask.HOST)
            found.culprits = [
                replace(
                    culprit,
                    component=named.component if step else culprit.component or named.component,
                    evidence=(*culprit.evidence, *named.evidence),
                    exhibits=tuple(named.exhibits),
                )
            ]

    def _show(self, rows: dict[Ask, Step]) -> None:
        self.findings.ladder[-1] = rows[Ask.MAIN]
        self.findings.ablation = [step for ask, step in rows.items() if ask is not Ask.MAIN]

    @staticmethod
    def _part(reading: Reading, confidence: Confidence) -> Component | None:
        if reading.part is None:
            return None
        kind, name = reading.part
        return Component(kind=kind, name=name, confidence=confidence)

    def _prove(
        self, runner: LadderRunner, base: Baseline, rows: dict[Ask, Step], reading: Reading
    ) -> tuple[Proof, list[str]]:
        """Ask the pair again: the culprit in (must fail) and out (must pass, as often as luck demands)."""
        assert reading.out is not None
        rows[Ask.MAIN] = bad = runner.repeat(rows[Ask.MAIN], 1, "proof")
        failing = tally_of(step for step in rows.values() if step.verdict is Verdict.BAD)
        # Where an end was replaced, the row with both replaced has the culprit out as well.
        both = rows[Ask.BOTH]
        elsewhere = both.runs if reading.out in COMBINATIONS and both.verdict is Verdict.GOOD else 0
        good, proof = prove_again(
            runner,
            bad,
            rows[reading.out],
            failing,
            comparisons=len(COMBINATIONS + ABLATIONS),
            alternatives=[*base.alternatives, *reading.alternatives],
            passed_elsewhere=elsewhere if reading.out is not Ask.BOTH else 0,
        )
        rows[reading.out] = good
        told = [
            f"asked again: {LABELS[Ask.MAIN]} failed {bad.failures} of {bad.runs} runs, "
            f"{LABELS[reading.out]} passed {good.runs - good.failures} of {good.runs}"
        ]
        self.findings.confidence = round(1.0 - proof.doubt, 6)
        if good.verdict is not Verdict.GOOD or bad.verdict is not Verdict.BAD:
            self.findings.warnings.append("a row that passed at first failed when it was asked again")
        return proof, told


def _joined(one: Localization, two: Localization) -> Localization:
    """Two answers as one: the second one's component, the evidence of both."""
    return replace(two, evidence=[*one.evidence, *two.evidence], exhibits=[*one.exhibits, *two.exhibits])


def _named(step: Step, ask: Ask) -> Step:
    return replace(step, switch=ask.value, label=LABELS[ask])

"""Tests the premise of an accelerator bisection: the script fails on it, every time, in the same way."""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung
from accel_lab.core.verdict import Verdict
from accel_lab.search.lab import Lab
from accel_lab.search.premise import Baseline, run_verdict, values_signature
from accel_lab.search.repeats import Tally

#: Maximum runs to estimate the rate of an intermittent failure.
MOST_RUNS = 12


class Premise:
    """Runs the script on the unchanged accelerator, cold and warm, and uncompiled.

    The probe has the accelerator's rung and the switches that set it up.
    """

    def __init__(self, lab: Lab, probe: Probe) -> None:
        self._lab = lab
        self._probe = probe

    def run(self) -> Baseline:
        """Returns the baseline; ``target`` is None if the script does not fail on the accelerator."""
        lab, found = self._lab, Baseline()
        with lab.time_budget.without_deadline():
            cold_job = lab.submit(replace(self._probe, cold=True))
            plain_job = lab.submit(replace(self._probe, rung=Rung.UNCOMPILED))
        lab.warm_up()
        cold, found.uncompiled = cold_job.result(), plain_job.result()
        if not cold.was_run:
            said = "; ".join(cold.notes)
            unsaid = Evidence.of(EvidenceKind.ACCELERATOR_NOT_PREPARED)
            found.add_doubt("premise", Evidence.said(said) if said else unsaid)
        found.target = lab.signature(cold)
        if found.target is None:
            self._values(found, cold)
        self._add(found, cold, "first run", Verdict.GOOD if found.target is None else Verdict.BAD)
        if found.target is None:
            return found
        again = self._again(found, 1)
        if again is not Verdict.BAD and lab.is_warm:
            lab.go_cold()
            if self._again(found, 2) is Verdict.BAD:
                found.notes.append(
                    "in a warm process the script behaves differently, so every run is made in a fresh one"
                )
                found.steps = [step for step in found.steps if not step.outcome.warm]
                found.tally = Tally(runs=len(found.steps), failures=len(found.steps))
                return found
        if again is not Verdict.BAD:
            self._measure(found)
        return found

    def _values(self, found: Baseline, cold: Outcome) -> None:
        """Compares the values of regions with those of the uncompiled run, for a script that ends well."""
        lab, plain = self._lab, found.uncompiled
        assert plain is not None
        if not cold.facts.get("regions") or lab.signature(plain) is not None:
            return
        if lab.agreement(cold, plain) is not None:
            return
        shadow = replace(
            self._probe, rung=Rung.UNCOMPILED, switches=(("shadow", True), *self._probe.switches)
        )
        exact = lab.submit(shadow).result()
        found.reference = exact if exact.status is Status.OK else None
        different = lab.differences(cold, plain, found.reference)
        if different:
            found.values = different
            found.target = values_signature(different)

    def _again(self, found: Baseline, attempt: int) -> Verdict:
        outcome = self._lab.submit(self._probe.again(attempt)).result()
        verdict = run_verdict(self._lab, found, outcome)
        self._add(found, outcome, "warm run" if outcome.warm else "cold run", verdict)
        return verdict

    def _measure(self, found: Baseline) -> None:
        """Estimates the failure rate of a script that fails on some runs only."""
        found.notes.append("the script fails on some runs only")
        for attempt in range(3, MOST_RUNS + 1):
            self._again(found, attempt)

    def _add(self, found: Baseline, outcome: Outcome, label: str, verdict: Verdict) -> None:
        failed = verdict is Verdict.BAD
        signature: Signature | None = self._lab.signature(outcome) or (found.target if failed else None)
        found.keep(
            Step(
                rung=self._probe.rung,
                label=label,
                verdict=verdict,
                outcome=outcome,
                signature=signature,
                failures=int(failed),
                settings=self._probe.switches,
            )
        )

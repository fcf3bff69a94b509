"""Compares the values of a script that ends well with those of an uncompiled run."""

from __future__ import annotations

from dataclasses import replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import ByDesign
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe
from accel_lab.core.stages import Rung
from accel_lab.core.torch_settings import FALLBACK_RANDOM
from accel_lab.core.verdict import Verdict

from .lab import Lab
from .other_numbers import RANDOM, SEEDS, explained
from .premise import Baseline, values_signature
from .repeats import Tally


def compare_silent(lab: Lab, probe: Probe, baseline: Baseline, cold: Outcome) -> None:
    """Compares the recorded values of ``cold`` with an uncompiled run's; wrong ones become the target."""
    if not cold.facts.get("regions"):
        return
    uncompiled = lab.submit(replace(probe, rung=Rung.UNCOMPILED)).result()
    baseline.uncompiled = uncompiled
    if lab.signature(uncompiled) is not None:
        baseline.notes.append("the script fails when nothing is compiled, and passes when it is")
        return
    baseline.agreement = lab.agreement(cold, uncompiled)
    if baseline.agreement is not None:
        return
    reference = lab.submit(replace(probe, rung=Rung.UNCOMPILED, switches=(("shadow", True),))).result()
    baseline.reference = reference if reference.status is Status.OK else None
    different = lab.differences(cold, uncompiled, baseline.reference)
    if not different:
        if baseline.reference is not None:
            baseline.agreement = lab.agreement(cold, uncompiled, baseline.reference)
        return
    if cold.facts.get("random", True) and only_random(lab, probe, cold, uncompiled, baseline.reference):
        baseline.by_design = ByDesign(
            kind=RANDOM,
            setting=FALLBACK_RANDOM.code,
            why=Evidence.of(EvidenceKind.OTHER_RANDOM_NUMBERS),
            evidence=(
                Evidence.of(EvidenceKind.VALUES_AGREE_WITH_SETTING),
                Evidence.of(EvidenceKind.SEEDS_CHANGE_VALUES),
            ),
        )
        return
    lab.use_fixed_seed()
    baseline.values = different
    baseline.target = values_signature(different)
    last = baseline.steps[-1]
    baseline.steps[-1] = replace(last, verdict=Verdict.BAD, failures=1, signature=baseline.target)
    # A plain run records nothing, so it neither supports nor contradicts wrong numbers.
    baseline.steps[0] = replace(
        baseline.steps[0], note="completes; wrong values are only seen with recording"
    )
    baseline.tally = Tally(runs=1, failures=1)


def only_random(
    lab: Lab, probe: Probe, compiled: Outcome, uncompiled: Outcome, reference: Outcome | None
) -> bool:
    """Whether values differ as random numbers do: eager's generator fixes them, and seeds differ as much.

    The setting alone proves nothing: it also bypasses a wrong lowering of a random operator.
    """
    switches = (("inductor", {FALLBACK_RANDOM.key: FALLBACK_RANDOM.value}),)
    aligned = lab.submit(replace(probe, switches=(*probe.switches, *switches))).result()
    if aligned.status is not Status.OK or lab.differences(aligned, uncompiled, reference):
        return False
    plain = replace(probe, rung=Rung.UNCOMPILED)
    jobs = [lab.submit(replace(plain, switches=(("other_random", seed),))) for seed in SEEDS]
    others = [job.result() for job in jobs]
    return explained(lab, compiled, uncompiled, [other for other in others if other.status is Status.OK])

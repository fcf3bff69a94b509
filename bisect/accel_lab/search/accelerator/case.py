"""State shared by the accelerator searches, and the repeats that prove a culprit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered, Culprit, Findings, Step
from accel_lab.core.stages import Confidence, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search import environment_hints
from accel_lab.search.bisection import Pair
from accel_lab.search.ladder_runner import LadderRunner, tally_of
from accel_lab.search.premise import Baseline
from accel_lab.search.proof import Proof, prove_again

from .accelerator import Accelerator


@dataclass(kw_only=True)
class Case:
    """One script that fails on an accelerator.

    ``top`` is the run on the unchanged accelerator. With ``components`` the kernel, transfer or host call is
    named too. A search fills ``findings`` and ``pair``.
    """

    accelerator: Accelerator
    runner: LadderRunner
    base: Baseline
    findings: Findings
    top: Step
    components: bool = True
    pair: Pair | None = None

    def prove(
        self,
        bad: Step,
        good: Step,
        others: Iterable[Step],
        *,
        comparisons: int,
        alternatives: Iterable[Considered],
        passed_elsewhere: int = 0,
    ) -> tuple[Step, Step, Proof]:
        """Repeats the pair: ``bad`` must fail each time, ``good`` must pass often enough to rule out luck.

        ``others`` are the remaining rows that the pair was picked from.
        """
        bad = self.runner.repeat(bad, 1, "proof")
        failing = tally_of(step for step in (bad, *others) if step.verdict is Verdict.BAD)
        good, proof = prove_again(
            self.runner,
            bad,
            good,
            failing,
            comparisons=comparisons,
            alternatives=[*self.base.alternatives, *alternatives],
            passed_elsewhere=passed_elsewhere,
        )
        self.findings.confidence = round(1.0 - proof.doubt, 6)
        return bad, good, proof


def fails_by_itself(plain: Step) -> bool:
    """Whether the script fails when nothing is compiled."""
    return plain.verdict in (Verdict.BAD, Verdict.DIFFERENT)


def culprit_of_script(plain: Step) -> Culprit:
    """Returns the verdict for a script that fails uncompiled: the accelerator is not to blame."""
    early = environment_hints.of_script(plain.outcome)
    if early is not None:
        return early
    same = plain.verdict is Verdict.BAD
    return Culprit(
        stage=Stage.EAGER,
        confidence=Confidence.LIKELY,
        evidence=(Evidence.of(EvidenceKind.FAILS_OFF_ACCELERATOR, same=same),),
    )

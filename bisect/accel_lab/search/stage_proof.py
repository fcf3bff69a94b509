"""Proves a stage: repeats its two neighbours on the ladder and weighs the alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered, Culprit, Step
from accel_lab.core.stages import BLAMES, LADDER, Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict

from .ladder import Reading, index, read_steps, row, with_row
from .ladder_runner import LadderRunner, tally_of
from .proof import Proof, prove_again, qualify
from .repeats import Tally

#: Number of neighbour pairs on the ladder, one of which was picked, so luck had as many chances.
BOUNDARIES = len(LADDER) - 1


@dataclass(kw_only=True)
class Proved:
    """The culprit with its proven confidence, the ladder with the repeats, and the proof (None: no pair)."""

    culprit: Culprit | None
    ladder: list[Step]
    proof: Proof | None = None
    reading: Reading | None = None
    warnings: list[Evidence | str] = field(default_factory=list)


def prove_stage(
    runner: LadderRunner, ladder: Sequence[Step], culprit: Culprit, alternatives: Sequence[Considered]
) -> Proved:
    """Repeats the neighbours: without the culprit it must pass every time, with it it must fail."""
    considered = list(alternatives)
    result = Proved(culprit=qualify(culprit, considered), ladder=list(ladder))
    reading = read_steps(ladder)
    if culprit.stage is Stage.EAGER or reading.first_bad is None or reading.last_good is None:
        return result
    good, bad = row(ladder, reading.last_good), row(ladder, reading.first_bad)
    isolated = Stage.CODEGEN if bad.rung is Rung.KERNEL else BLAMES[bad.rung]
    if culprit.stage is not isolated:
        why = Evidence.of(
            EvidenceKind.PAIR_OF_ANOTHER_STAGE,
            below=good.rung,
            at=bad.rung,
            isolates=isolated,
            stage=culprit.stage,
        )
        considered.append(Considered(name="no_pair_of_its_own", open=True, why=why))
    runner.full_time_limit = True
    bad = runner.repeat(bad, 1, "proof")
    failing = _failing(with_row(ladder, bad), bad.rung)
    good, result.proof = prove_again(
        runner, bad, good, failing, comparisons=BOUNDARIES, alternatives=considered
    )
    result.ladder = with_row(with_row(ladder, bad), good)
    if good.verdict is not Verdict.GOOD or bad.verdict is not Verdict.BAD:
        return _reconsider(runner, result.ladder, considered, reading)
    repeated = Evidence.of(
        EvidenceKind.PAIR_REPEATED,
        below=good.rung,
        passes=good.runs,
        at=bad.rung,
        failures=bad.failures,
        runs=bad.runs,
    )
    result.culprit = qualify(
        replace(culprit, confidence=result.proof.confidence, evidence=(*culprit.evidence, repeated)),
        considered,
    )
    return result


def _failing(ladder: Sequence[Step], from_rung: Rung) -> Tally:
    """Returns all runs that surely contain the culprit: those that fail at its rung or above."""
    return tally_of(
        step for step in ladder if index(step.rung) >= index(from_rung) and step.verdict is Verdict.BAD
    )


def _reconsider(
    runner: LadderRunner, ladder: Sequence[Step], alternatives: Sequence[Considered], first: Reading
) -> Proved:
    """Reads the ladder again after a good rung failed: the failure is flaky, so nothing is proven."""
    flaky = Evidence.of(EvidenceKind.RUNG_FLAKY)
    result = Proved(culprit=None, ladder=list(ladder), warnings=[flaky])
    reading = read_steps([step for step in ladder if step.rung in LADDER])
    if reading.first_bad is None or reading.last_good is None:
        return result
    good, bad = row(ladder, reading.last_good), row(ladder, reading.first_bad)
    failing = _failing(ladder, bad.rung)
    # The rungs were chosen after looking at the runs, so the bound on luck no longer holds.
    considered = [*alternatives, Considered(name="chosen_afterwards", open=True, why=flaky)]
    good, result.proof = prove_again(
        runner, bad, good, failing, comparisons=BOUNDARIES, alternatives=considered
    )
    result.ladder = with_row(ladder, good)
    if good.verdict is Verdict.BAD:
        return _reconsider(runner, result.ladder, alternatives, first)
    # Non-monotone rungs that were already reported are kept; other regions are held on the new rungs.
    result.reading = replace(reading, non_monotone=first.non_monotone or reading.non_monotone)
    repeated = Evidence.of(
        EvidenceKind.PAIR_CHOSEN_AFTERWARDS,
        below=good.rung,
        passes=good.runs,
        at=bad.rung,
        failures=bad.failures,
    )
    result.culprit = qualify(
        Culprit(stage=BLAMES[bad.rung], confidence=Confidence.LIKELY, evidence=(repeated,)), considered
    )
    return result

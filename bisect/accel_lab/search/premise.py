"""The premise of a search: how the unchanged script fails, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Agreement, ByDesign, Considered, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Confidence
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .lab import Difference, Lab
from .repeats import Tally

#: The lab's own changes hide the failure: what a recorded run shows is then no evidence.
INSTRUMENTATION = "instrumentation"
#: The lab's own changes make the failure; and what runs leave behind keeps it from coming again.
LAB_FAILURE, STATE = "lab_failure", "state"

#: So many wrong values are evidence: the others follow from the first ones.
_SHOWN_VALUES = 2


def hurried(probe: Probe, target: Signature | None) -> Probe:
    """The probe with a tenth of its time limit (at least 20 s) where the failure is a hang.

    A hang costs the whole limit each time; only the runs that decide are given all of it.
    """
    if target is None or target.kind != "timeout":
        return probe
    limit = min(probe.limits.timeout_s, max(20.0, probe.limits.timeout_s / 10))
    return replace(probe, limits=replace(probe.limits, timeout_s=limit))


#: Said where the script is judged without a recording.
NOT_RECORDED = (
    "the script ends otherwise where the lab records what its compiled regions take and return, which keeps "
    "tensors alive and needs memory, so nothing was recorded"
)


def unrecorded(probe: Probe) -> Probe:
    """The probe without a recording of values."""
    return replace(probe, limits=replace(probe.limits, record_mb=0))


@dataclass(kw_only=True)
class Baseline:
    """What the unchanged script does. ``target`` is the failure that everything is judged against.

    ``alternatives`` are doubts about the premise itself, which no verdict can be rid of. ``unchecked``: how
    often it failed before the allocator's checks were turned on, if they were. ``in_processes``: what fails
    is compiled in processes that the script starts.
    """

    steps: list[Step] = field(default_factory=list)
    target: Signature | None = None
    by_design: ByDesign | None = None
    tally: Tally = field(default_factory=Tally)
    values: Sequence[Difference] = ()
    reference: Outcome | None = None
    uncompiled: Outcome | None = None
    notes: list[str] = field(default_factory=list)
    unchecked: Tally | None = None
    agreement: Agreement | None = None
    alternatives: list[Considered] = field(default_factory=list)
    in_processes: bool = False

    def contest(self, name: str, why: Evidence) -> None:
        """Doubt the premise: whatever is found is a lead at most."""
        self.alternatives.append(Considered(name=name, open=True, why=why, limit=Confidence.INCONCLUSIVE))

    @property
    def doubts(self) -> list[Evidence]:
        """What is wrong with the premise: the first doubt alone, if there is any."""
        return [alternative.why for alternative in self.alternatives[:1]]

    @property
    def hidden(self) -> bool:
        """Whether the script fails deterministically, but never when instrumented."""
        return any(alternative.name == INSTRUMENTATION for alternative in self.alternatives)

    @property
    def unlike_plain(self) -> bool:
        """Whether plain runs and instrumented ones end differently, each time."""
        return any(alternative.name in (INSTRUMENTATION, LAB_FAILURE) for alternative in self.alternatives)

    @property
    def ends_here(self) -> bool:
        """Whether more runs cannot show anything more of the failure."""
        return any(alternative.name in (STATE, LAB_FAILURE) for alternative in self.alternatives)

    @property
    def flaky(self) -> bool:
        """Whether some runs failed and others did not."""
        return 0 < self.tally.failures < self.tally.runs

    def keep(self, step: Step) -> None:
        """Add a run, and count it if it is conclusive."""
        self.steps.append(step)
        self.tally = self.tally.plus(_counted([step]))

    def drop_warm(self) -> None:
        """Forget the runs in the warm process, and their count."""
        gone = _counted(step for step in self.steps if step.outcome.warm)
        self.steps = [step for step in self.steps if not step.outcome.warm]
        self.tally = Tally(runs=self.tally.runs - gone.runs, failures=self.tally.failures - gone.failures)


def _counted(steps: Iterable[Step]) -> Tally:
    """The conclusive runs: another failure does not count."""
    judged = [step for step in steps if step.verdict in (Verdict.GOOD, Verdict.BAD)]
    return Tally(runs=len(judged), failures=sum(step.failures for step in judged))


def same_failure(plain: Signature | None, recorded: Signature | None) -> bool:
    """Whether a plain run and an instrumented one show the same failure.

    Of a plain run only the printed traceback is known, so an exit code is compared with an exit code
    and an exception by its type.
    """
    if plain is None or recorded is None:
        return plain is recorded
    if plain.kind == recorded.kind:
        return plain.type == recorded.type or plain.kind not in ("exception",)
    if {plain.kind, recorded.kind} == {"signal", "memory_fault"}:
        # What the allocator printed may have been lost: an abort alone does not contradict it.
        return "SIGABRT" in (plain.type, recorded.type)
    return {plain.kind, recorded.kind} <= {"exception", "exit", "memory"}


def wrong_values(different: Sequence[Difference]) -> tuple[Evidence, ...]:
    """The first values that differ, as evidence."""
    return tuple(
        Evidence.of(
            EvidenceKind.WRONG_VALUE,
            name=one.name,
            call=one.call,
            phase=one.phase,
            path=one.path,
            how=one.comparison.detail or one.comparison.reason,
        )
        for one in different[:_SHOWN_VALUES]
    )


def values_signature(different: Sequence[Difference]) -> Signature:
    """The signature of silently wrong numbers: how they are wrong, and in which regions."""
    reasons = sorted({d.comparison.reason for d in different})
    places = sorted({f"{d.name}.{d.phase}" for d in different})
    return Signature(kind="values", type=" ".join(reasons), message=shorten(", ".join(places), 300))


def values_verdict(lab: Lab, baseline: Baseline, outcome: Outcome) -> Verdict:
    """The verdict of a run when wrong recorded values are what is looked for."""
    if outcome.status in (Status.REFUSED, Status.NOT_APPLICABLE):
        return Verdict.SKIP
    if lab.signature(outcome) is not None:
        return Verdict.DIFFERENT
    if baseline.uncompiled is None:
        return Verdict.SKIP
    different = lab.differences(outcome, baseline.uncompiled, baseline.reference)
    if not different:
        return Verdict.GOOD
    return Verdict.BAD if lab.same_differences(different, baseline.values) else Verdict.DIFFERENT

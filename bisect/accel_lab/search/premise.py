"""The premise of a search: how the unchanged script fails, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Agreement, ByDesign, Considered, Step
from accel_lab.core.judge import judge
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Confidence
from accel_lab.core.text import shorten
from accel_lab.core.verdict import Verdict

from .lab import Difference, Lab
from .repeats import Tally

#: Instrumentation hides the failure, so a recorded run is no evidence.
INSTRUMENTATION = "instrumentation"
#: Instrumentation causes the failure; or state left by earlier runs keeps it from recurring.
LAB_FAILURE, STATE = "lab_failure", "state"

#: Number of wrong values given as evidence: later ones follow from the first.
_SHOWN_VALUES = 2


def with_short_timeout(probe: Probe, target: Signature | None) -> Probe:
    """Returns the probe with a tenth of its time limit (at least 20 s) if the failure is a hang.

    A hang costs the whole limit every time, so only decisive runs get all of it.
    """
    if target is None or target.kind != "timeout":
        return probe
    limit = min(probe.limits.timeout_s, max(20.0, probe.limits.timeout_s / 10))
    return replace(probe, limits=replace(probe.limits, timeout_s=limit))


#: Note for a script that is judged without recording.
NOT_RECORDED = (
    "recording changes how the script ends (it keeps tensors alive and needs memory), so nothing was recorded"
)


def unrecorded(probe: Probe) -> Probe:
    """Returns the probe without recording of values."""
    return replace(probe, limits=replace(probe.limits, record_mb=0))


@dataclass(kw_only=True)
class Baseline:
    """How the unchanged script behaves.

    ``target`` is the failure that everything is judged against. ``alternatives`` are doubts about the premise
    itself, which apply to every verdict. ``unchecked`` counts the runs before the allocator's checks were
    turned on, if they were. ``in_processes``: the failing code is compiled in processes that the script
    starts.
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

    def add_doubt(self, name: str, why: Evidence) -> None:
        """Adds a doubt about the premise: every result is then inconclusive."""
        self.alternatives.append(Considered(name=name, open=True, why=why, limit=Confidence.INCONCLUSIVE))

    @property
    def doubts(self) -> list[Evidence]:
        """The first doubt about the premise, if there is any."""
        return [alternative.why for alternative in self.alternatives[:1]]

    @property
    def hidden(self) -> bool:
        """Whether the script fails deterministically, but never when instrumented."""
        return any(alternative.name == INSTRUMENTATION for alternative in self.alternatives)

    @property
    def unlike_plain(self) -> bool:
        """Whether plain and instrumented runs end differently every time."""
        return any(alternative.name in (INSTRUMENTATION, LAB_FAILURE) for alternative in self.alternatives)

    @property
    def ends_here(self) -> bool:
        """Whether further runs can show nothing more about the failure."""
        return any(alternative.name in (STATE, LAB_FAILURE) for alternative in self.alternatives)

    @property
    def flaky(self) -> bool:
        """Whether some runs failed and others did not."""
        return 0 < self.tally.failures < self.tally.runs

    def keep(self, step: Step) -> None:
        """Adds a run, and counts it if it is conclusive."""
        self.steps.append(step)
        self.tally = self.tally.plus(_counted([step]))

    def drop_warm(self) -> None:
        """Drops the warm runs and their count."""
        gone = _counted(step for step in self.steps if step.outcome.warm)
        self.steps = [step for step in self.steps if not step.outcome.warm]
        self.tally = Tally(runs=self.tally.runs - gone.runs, failures=self.tally.failures - gone.failures)


def _counted(steps: Iterable[Step]) -> Tally:
    """Counts the conclusive runs; runs that fail in another way do not count."""
    judged = [step for step in steps if step.verdict in (Verdict.GOOD, Verdict.BAD)]
    return Tally(runs=len(judged), failures=sum(step.failures for step in judged))


def same_failure(plain: Signature | None, recorded: Signature | None) -> bool:
    """Whether a plain run and an instrumented one show the same failure.

    Only the printed traceback of a plain run is known, so exit codes are compared with exit codes and
    exceptions by their type.
    """
    if plain is None or recorded is None:
        return plain is recorded
    if plain.kind == recorded.kind:
        return plain.type == recorded.type or plain.kind not in ("exception",)
    if {plain.kind, recorded.kind} == {"signal", "memory_fault"}:
        # The allocator's message may be lost, so an abort alone does not contradict it.
        return "SIGABRT" in (plain.type, recorded.type)
    return {plain.kind, recorded.kind} <= {"exception", "exit", "memory"}


def wrong_values(different: Sequence[Difference]) -> tuple[Evidence, ...]:
    """Returns the first values that differ, as evidence."""
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
    """Returns the signature of silently wrong numbers: how they are wrong, and in which regions."""
    reasons = sorted({d.comparison.reason for d in different})
    places = sorted({f"{d.name}.{d.phase}" for d in different})
    return Signature(kind="values", type=" ".join(reasons), message=shorten(", ".join(places), 300))


def run_verdict(lab: Lab, baseline: Baseline, outcome: Outcome) -> Verdict:
    """Returns the verdict of one more run against the baseline's target."""
    assert baseline.target is not None
    if lab.oracle_undecided(outcome):
        return Verdict.SKIP
    if baseline.target.kind == "values":
        return values_verdict(lab, baseline, outcome)
    return judge(outcome, baseline.target, lab.signature(outcome))


def values_verdict(lab: Lab, baseline: Baseline, outcome: Outcome) -> Verdict:
    """Returns the verdict of a run when the target failure is wrong recorded values."""
    if not outcome.was_run:
        return Verdict.SKIP
    if lab.signature(outcome) is not None:
        return Verdict.DIFFERENT
    if baseline.uncompiled is None:
        return Verdict.SKIP
    different = lab.differences(outcome, baseline.uncompiled, baseline.reference)
    if not different:
        return Verdict.GOOD
    return Verdict.BAD if lab.same_differences(different, baseline.values) else Verdict.DIFFERENT

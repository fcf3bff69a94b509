"""Findings: the one record that the terminal, the report, the JSON and the bundle are printed from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from .evidence import Evidence, with_records
from .outcome import Outcome
from .probe import Program
from .record import Record, as_json
from .releases.flip_details import StepRow
from .releases.versions import Versions
from .signature import Signature
from .stages import Confidence, Level, Rung, Side, Stage, level_of, side_of
from .verdict import Verdict
from .workarounds import KnownFailure, Workaround

SCHEMA = "accel-lab/findings/1"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One row of the ladder or of the ablation table: what was asked and what came back.

    ``settings`` are the probe's switches, ``switch`` and ``label`` their name and words for the reader.
    """

    rung: Rung
    switch: str = ""
    label: str = ""
    verdict: Verdict
    outcome: Outcome
    signature: Signature | None = None
    max_abs_error: float | None = None
    runs: int = 1
    failures: int = 0
    note: str = ""
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def row(self) -> StepRow:
        """The step without its run."""
        return StepRow(
            rung=self.rung.value,
            verdict=self.verdict,
            status=self.outcome.status,
            signature=self.signature,
            seconds=self.outcome.seconds,
            max_abs_error=self.max_abs_error,
            torch=self.outcome.torch,
            runs=self.runs,
            failures=self.failures,
            note=self.note,
            switch=self.switch,
            label=self.label,
        )

    def to_json(self) -> dict[str, Any]:
        return self.row.to_json()


@dataclass(frozen=True, kw_only=True)
class AgreedType(Record):
    """How near the recorded values of one type are to an uncompiled run's.

    ``greatest`` is the greatest difference, relative to the value and its tensor's own size; ``tolerance`` is
    the relative difference that is never counted.
    """

    dtype: str
    tensors: int
    greatest: float
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """What it means that the recorded values agree with an uncompiled run's.

    ``factor`` is how many times eager's own error against a float64 run was allowed; None if that run was not
    needed.
    """

    types: tuple[AgreedType, ...]
    others: int = 0
    factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class Component(Record):
    """The part of a stage at fault: ``kind`` is op, pass, decomposition, function, guard, switch, ...

    ``confidence`` is ``proven`` only if the failure went away with the component alone taken out and was
    there again with it put back. ``cure`` is what a user can change in the script to the same effect.
    """

    kind: str
    name: str
    detail: str = ""
    confidence: Confidence = Confidence.LIKELY
    cure: str = ""


@dataclass(frozen=True, kw_only=True)
class Exhibit(Record):
    """Something to look at beside an answer: a graph before and after, a generated kernel, a table.

    ``text`` is code or a diff in ``language`` (``python``, ``cpp``, ``diff``, ``text``) with ``marked``
    lines (from 1) that matter; ``rows`` is a table whose first row holds the column names.
    """

    kind: str
    title: str
    text: str = ""
    language: str = "text"
    marked: tuple[int, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Considered(Record):
    """An alternative explanation, and what became of it: ruled out by a run, or still open.

    ``name`` is its name in the registry (``search/alternatives``), ``why`` what ruled it out or leaves it
    open. While it is ``open``, the verdict is at most as sure as ``limit``; ``component`` says that it
    contests the component as well as the stage.
    """

    name: str
    open: bool
    why: Evidence = field(metadata=as_json(name="observation"))
    limit: Confidence = field(default=Confidence.LIKELY, metadata=as_json(hidden=True))
    component: bool = field(default=False, metadata=as_json(hidden=True))

    @classmethod
    def from_json(cls, data: Any) -> Considered:
        """A report of an earlier lab has the sentences alone."""
        return super().from_json(with_records(data))


@dataclass(frozen=True, kw_only=True)
class Culprit(Record):
    """A stage (and, where one was found, a component) with the evidence for it.

    ``alternatives`` are the other explanations that were considered. The JSON calls the evidence
    ``observations``: ``reporting.schema`` adds the sentences under ``evidence``.
    """

    stage: Stage
    side: Side | None = None
    level: Level | None = None
    component: Component | None = None
    confidence: Confidence
    evidence: tuple[Evidence, ...] = field(default=(), metadata=as_json(name="observations"))
    exhibits: tuple[Exhibit, ...] = ()
    alternatives: tuple[Considered, ...] = ()

    def to_json(self) -> dict[str, Any]:
        side, level = self.side or side_of(self.stage), self.level or level_of(self.stage)
        return {**super().to_json(), "side": side.value, "level": level.value}

    @classmethod
    def from_json(cls, data: Any) -> Culprit:
        """A report of an earlier lab has the sentences alone."""
        return super().from_json(with_records(data))


@dataclass(frozen=True, kw_only=True)
class ByDesign(Record):
    """Why a difference between compiled and uncompiled code is no bug.

    ``kind`` is ``random_numbers`` or ``rounding``, ``why`` says what differs. With ``setting`` alone (as
    Python: ``torch._inductor.config.x = y``) both agree. ``evidence`` is what was run.
    """

    kind: str
    setting: str
    why: Evidence = field(metadata=as_json(name="observation"))
    evidence: tuple[Evidence, ...] = field(default=(), metadata=as_json(name="observations"))

    @classmethod
    def from_json(cls, data: Any) -> ByDesign:
        """A report of an earlier lab has the sentences alone."""
        return super().from_json(with_records(data))


@dataclass(frozen=True, kw_only=True)
class WitnessAnswer(Record):
    """One question to a witness: a backend of torch, less the ``subsystem`` of it that was left out."""

    backend: str
    subsystem: str | None = None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Witness(Record):
    """A second, independent opinion. ``agrees`` is None where the build cannot give it (``available``)."""

    name: str
    available: bool = True
    agrees: bool | None = None
    asked: tuple[WitnessAnswer, ...] = ()
    words: str = ""


@dataclass(kw_only=True)
class ReproProof(Record):
    """The runs that verify a repro: as a user would run it, in a fresh process, and on both rungs.

    ``plain`` is how the first ended (``exit 1``, ``signal 11``), ``bad`` and ``good`` are verdicts,
    ``elsewhere`` is the verdict on a build where the script passes.
    """

    plain: str = ""
    bad: str = ""
    good: str = ""
    elsewhere: str = ""
    holds: bool = field(default=False, metadata=as_json(hidden=True))
    words: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Nothing at all where nothing was run."""
        return super().to_json() if self != ReproProof() else {}


@dataclass(frozen=True, kw_only=True)
class ReducedScript(Record):
    """One reduced script. ``kind`` is ``graph`` or ``script``; sizes are before and after.

    ``minimal``: no single statement can be removed. ``same_component``: it fails by the component of the
    whole script; None where that was not asked.
    """

    kind: str
    script: str
    nodes_before: int | None = None
    nodes_after: int | None = None
    lines_before: int | None = None
    lines_after: int | None = None
    verified: bool = False
    proof: ReproProof = field(default_factory=ReproProof)
    minimal: bool = False
    same_component: bool | None = None


@dataclass(kw_only=True)
class Repro(Record):
    """The smallest script that still fails (``script``), the one of the other kind, and why there is none.

    ``min_good`` is the nearest script that passes, ``graph`` the reduced graph's, whichever is the smallest.
    """

    why_not: str = ""
    script: str | None = None
    graph: str | None = None
    kind: str = ""
    nodes_before: int | None = None
    nodes_after: int | None = None
    lines_before: int | None = None
    lines_after: int | None = None
    verified: bool = False
    proof: ReproProof = field(default_factory=ReproProof)
    minimal: bool = False
    same_component: bool | None = None
    candidates: int = 0
    seconds: float = field(default=0.0, metadata=as_json(digits=1))
    min_good: str | None = None
    other: ReducedScript | None = None
    notes: list[str] = field(default_factory=list)
    exhibits: tuple[Exhibit, ...] = ()

    @property
    def smallest(self) -> ReducedScript | None:
        """The script with its sizes and its proof; None where there is none."""
        if not self.script:
            return None
        names = [one.name for one in fields(ReducedScript)]
        return ReducedScript(**{name: getattr(self, name) for name in names})

    def offer(self, best: ReducedScript) -> None:
        """Make a reduced script the smallest one."""
        for one in fields(best):
            setattr(self, one.name, getattr(best, one.name))


@dataclass(kw_only=True)
class Findings:
    """Everything that one bisection found. ``culprits[0]`` is the answer; more are independent faults.

    ``verdict`` is one of ``fails`` (a culprit or "cannot tell" follows), ``passes`` (the script does
    not fail), ``by_design`` (compiled and uncompiled code differ as they are meant to) and ``inconclusive``.
    ``outside`` says where it fails, if no rung of the ladder reaches that. ``unasked`` are the questions that
    the time did not reach; ``budget_s`` is the time for the whole, in seconds, if the user set one.
    """

    program: Program
    verdict: str = "inconclusive"
    outside: str = ""
    baseline: list[Step] = field(default_factory=list)
    signature: Signature | None = None
    failure_rate: float | None = None
    agreement: Agreement | None = None
    ladder: list[Step] = field(default_factory=list)
    ablation: list[Step] = field(default_factory=list)
    culprits: list[Culprit] = field(default_factory=list)
    by_design: ByDesign | None = None
    witness: Witness | None = None
    confidence: float | None = None
    summary: str = ""
    next_steps: list[str] = field(default_factory=list)
    warnings: list[Evidence | str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    budget_s: float | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    versions: Versions | None = None
    repro: Repro | None = None
    workarounds: list[Workaround] = field(default_factory=list)
    known: list[KnownFailure] = field(default_factory=list)
    artifacts: str = ""
    bundle: str | None = None
    bundle_check: dict[str, Any] | None = None
    report: str | None = None
    seconds_total: float = 0.0
    seconds_probes: float = 0.0
    probes: dict[str, int] = field(default_factory=dict)

    @property
    def culprit(self) -> Culprit | None:
        """The answer, if there is one."""
        return self.culprits[0] if self.culprits else None

    def to_json(self) -> dict[str, Any]:
        """The object of DESIGN section 10, with records where ``reporting.schema`` puts sentences."""
        first = self.baseline[0].outcome if self.baseline else None
        return {
            "schema": SCHEMA,
            "script": self.program.to_json(),
            "verdict": self.verdict,
            "outside": self.outside,
            "summary": self.summary,
            "baseline": {
                "status": first.status.value if first else None,
                "signature": self.signature.to_json() if self.signature else None,
                "repeats": sum(step.runs for step in self.baseline),
                "failures": sum(step.failures for step in self.baseline),
                "failure_rate": self.failure_rate,
                "agreement": self.agreement.to_json() if self.agreement else None,
                "runs": [step.to_json() for step in self.baseline],
            },
            "ladder": [step.to_json() for step in self.ladder],
            "ablation": [step.to_json() for step in self.ablation],
            "culprit": self.culprit.to_json() if self.culprit else None,
            "culprits": [c.to_json() for c in self.culprits],
            "by_design": self.by_design.to_json() if self.by_design else None,
            "witness": self.witness.to_json() if self.witness else None,
            "confidence": self.confidence,
            "next_steps": list(self.next_steps),
            "warnings": [w if isinstance(w, str) else w.to_json() for w in self.warnings],
            "unasked": list(self.unasked),
            "budget_s": self.budget_s,
            "environment": self.environment,
            "versions": self.versions.to_json() if self.versions else None,
            "repro": self.repro.to_json() if self.repro else None,
            "workarounds": [one.to_json() for one in self.workarounds],
            "known": [one.to_json() for one in self.known],
            "artifacts": self.artifacts,
            "report": self.report,
            "bundle": self.bundle,
            "bundle_check": self.bundle_check,
            "seconds": {"total": round(self.seconds_total, 3), "probes": round(self.seconds_probes, 3)},
            "probes": sum(self.probes.values()),
            "probes_by_kind": dict(self.probes),
        }

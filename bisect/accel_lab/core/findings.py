"""Findings: the result of a bisection, from which terminal, report, JSON and bundle are made."""

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
    """One row of the ladder or of the ablation table: a probe and its result.

    ``settings`` are the probe's switches. ``switch`` and ``label`` are their name and description for the
    reader. ``runs`` and ``failures`` count repeats.
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
        """The step as JSON row, without the outcome's details."""
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
    """The largest error of the recorded values of one dtype, against an uncompiled run.

    ``greatest`` is the greatest difference, relative to the value and its tensor's own size. Relative
    differences up to ``tolerance`` are ignored.
    """

    dtype: str
    tensors: int
    greatest: float
    tolerance: float


@dataclass(frozen=True, kw_only=True)
class Agreement(Record):
    """How closely the recorded values agree with an uncompiled run.

    ``factor`` is the allowed multiple of eager's own error against a float64 run; None if that run was not
    needed.
    """

    types: tuple[AgreedType, ...]
    others: int = 0
    factor: float | None = None


@dataclass(frozen=True, kw_only=True)
class Component(Record):
    """The faulty part of a stage: ``kind`` is op, pass, decomposition, function, guard, switch, ...

    ``confidence`` is ``proven`` only if the failure disappeared with only this component disabled and
    returned with it enabled. ``cure`` is a change to the script with the same effect.
    """

    kind: str
    name: str
    detail: str = ""
    confidence: Confidence = Confidence.LIKELY
    cure: str = ""


@dataclass(frozen=True, kw_only=True)
class Exhibit(Record):
    """Supporting material for an answer: a graph before and after, a generated kernel, a table.

    ``text`` is code or a diff in ``language`` (``python``, ``cpp``, ``diff``, ``text``); ``marked`` are its
    relevant lines, from 1. ``rows`` is a table; its first row has the column names.
    """

    kind: str
    title: str
    text: str = ""
    language: str = "text"
    marked: tuple[int, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Considered(Record):
    """An alternative explanation and its state: ruled out by a run, or still open.

    ``name`` is its name in the registry (``search/alternatives``). ``why`` is what ruled it out or leaves it
    open. While it is ``open``, ``limit`` caps the verdict's confidence. ``component``: it contests the
    component too, not only the stage.
    """

    name: str
    open: bool
    why: Evidence = field(metadata=as_json(name="observation"))
    limit: Confidence = field(default=Confidence.LIKELY, metadata=as_json(hidden=True))
    component: bool = field(default=False, metadata=as_json(hidden=True))

    @classmethod
    def from_json(cls, data: Any) -> Considered:
        """Also reads reports of older labs, which have sentences only."""
        return super().from_json(with_records(data))


@dataclass(frozen=True, kw_only=True)
class Culprit(Record):
    """The faulty stage, its component if one was found, and the evidence.

    ``alternatives`` are the other explanations that were considered. In the JSON the evidence is
    ``observations``; ``reporting.schema`` adds the sentences as ``evidence``.
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
        """Also reads reports of older labs, which have sentences only."""
        return super().from_json(with_records(data))


@dataclass(frozen=True, kw_only=True)
class ByDesign(Record):
    """Why compiled and uncompiled code differ by design.

    ``kind`` is ``random_numbers`` or ``rounding``. ``why`` says what differs. Both agree with ``setting``
    alone, a line of Python (``torch._inductor.config.x = y``). ``evidence`` is what was run.
    """

    kind: str
    setting: str
    why: Evidence = field(metadata=as_json(name="observation"))
    evidence: tuple[Evidence, ...] = field(default=(), metadata=as_json(name="observations"))

    @classmethod
    def from_json(cls, data: Any) -> ByDesign:
        """Also reads reports of older labs, which have sentences only."""
        return super().from_json(with_records(data))


@dataclass(frozen=True, kw_only=True)
class CrossCheckAnswer(Record):
    """One answer of the cross-check: the verdict of a torch backend with one ``subsystem`` disabled."""

    backend: str
    subsystem: str | None = None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class CrossCheck(Record):
    """An independent cross-check by torch's CompilerBisector.

    ``agrees`` is None if there is no opinion, e.g. because the build lacks it (``available``).
    """

    name: str
    available: bool = True
    agrees: bool | None = None
    asked: tuple[CrossCheckAnswer, ...] = ()
    words: str = ""


@dataclass(kw_only=True)
class ReproProof(Record):
    """The runs that verify a repro: plain in a fresh process, and on the failing and the passing rung.

    ``plain`` is how the plain run ended (``exit 1``, ``signal 11``). ``bad`` and ``good`` are the verdicts on
    the rungs. ``elsewhere`` is the verdict on a build where the script passes.
    """

    plain: str = ""
    bad: str = ""
    good: str = ""
    elsewhere: str = ""
    holds: bool = field(default=False, metadata=as_json(hidden=True))
    words: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns {} if nothing was run."""
        return super().to_json() if self != ReproProof() else {}


@dataclass(frozen=True, kw_only=True)
class ReducedScript(Record):
    """One reduced script. ``kind`` is ``graph`` or ``script``; sizes are before and after the reduction.

    ``minimal``: no single statement can be removed. ``same_component``: it fails because of the same
    component as the original; None if not checked.
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
    """The smallest script that still fails (``script``), or the reason why there is none (``why_not``).

    ``other`` is the reduced script of the other kind. ``min_good`` is the closest script that passes.
    ``graph`` is the script of the reduced graph, even if it is not the smallest.
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
        """The smallest script with its sizes and proof; None if there is none."""
        if not self.script:
            return None
        names = [one.name for one in fields(ReducedScript)]
        return ReducedScript(**{name: getattr(self, name) for name in names})

    def offer(self, best: ReducedScript) -> None:
        """Sets ``best`` as the smallest script."""
        for one in fields(best):
            setattr(self, one.name, getattr(best, one.name))


@dataclass(kw_only=True)
class Findings:
    """The complete result of one bisection. ``culprits[0]`` is the answer; more are independent faults.

    ``verdict`` is ``fails`` (with a culprit, or none if it cannot be told), ``passes``, ``by_design``
    (compiled and uncompiled code differ intentionally) or ``inconclusive``. ``outside`` names where the
    script fails if no rung reaches that. ``unasked`` lists the questions that the time budget did not allow.
    ``budget_s`` is the time budget in seconds, if the user set one.
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
    witness: CrossCheck | None = None
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
    seconds_workarounds: float = 0.0
    probes: dict[str, int] = field(default_factory=dict)

    @property
    def culprit(self) -> Culprit | None:
        """The first culprit, None if there is none."""
        return self.culprits[0] if self.culprits else None

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON of DESIGN section 10, still with evidence records in place of sentences."""
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
            "seconds": {
                "total": round(self.seconds_total, 3),
                "probes": round(self.seconds_probes, 3),
                "workarounds": round(self.seconds_workarounds, 3),
            },
            "probes": sum(self.probes.values()),
            "probes_by_kind": dict(self.probes),
        }

"""Runs the ladder on one side of a flip, and pairs the graphs and generated code of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import Culprit, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.releases.flip_details import CodePair, SideRow
from accel_lab.core.stages import Rung
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.core.verdict import Verdict
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.diagnosis import Diagnosis, Options, rungs_below
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.timeline.two_axes import Laddered

from .build_verdict import TargetFailure
from .release_session import ReleaseSession

#: Artifacts shown side by side, closest to the machine first, and limits for each.
SHOWN = ("kernel", "output_code", "post_grad")
SHOWN_CHARACTERS = 24_000
MOST_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class Side:
    """The ladder of one release; ``culprit`` is None if the release passes or no culprit was found."""

    version: str
    ladder: tuple[Step, ...] = ()
    culprit: Culprit | None = None
    warnings: tuple[Evidence | str, ...] = ()
    top: Outcome | None = field(default=None, repr=False)

    @property
    def graph(self) -> Outcome | None:
        """The run that recorded the graph after all passes, if any."""
        return next((step.outcome for step in self.ladder if step.rung is Rung.FX), None)

    @property
    def stage(self) -> str:
        return self.culprit.stage.value if self.culprit is not None else ""

    @property
    def component(self) -> str:
        part = self.culprit.component if self.culprit is not None else None
        return f"{part.kind} {part.name}" if part is not None else ""

    @property
    def laddered(self) -> Laddered:
        """The part of the side that the comparison of releases needs."""
        return Laddered(
            torch=self.version,
            stage=self.stage,
            component=self.component,
            rungs={step.rung: step.verdict for step in self.ladder},
        )

    @property
    def row(self) -> SideRow:
        """Returns the record for the findings."""
        return SideRow(
            torch=self.version,
            stage=self.stage,
            component=self.component,
            confidence=self.culprit.confidence.value if self.culprit is not None else None,
            ladder=tuple(step.row for step in self.ladder),
            warnings=self.warnings,
        )


def bad_side(session: ReleaseSession, options: Options) -> Side:
    """Runs the whole diagnosis on a failing release; its first runs are already in the journal."""
    diagnosis = Diagnosis(session.lab, session.probe, replace(options, witness=False, most_faults=1))
    findings = diagnosis.run()
    return side_of(session.version, findings.ladder, findings.culprit, tuple(findings.warnings))


def side_of(
    version: str, ladder: Sequence[Step], culprit: Culprit | None, warnings: tuple[Evidence | str, ...] = ()
) -> Side:
    """Builds a side from an existing diagnosis."""
    top = next((step.outcome for step in ladder if step.rung is Rung.KERNEL), None)
    return Side(version=version, ladder=tuple(ladder), culprit=culprit, warnings=warnings, top=top)


def good_side(session: ReleaseSession, target: TargetFailure, budget: float) -> Side:
    """Runs every rung on a passing release: a rung below the top that fails means hidden, not fixed."""
    lab = session.lab
    base = BaselineSearch(lab, session.probe).first_runs(silent=target.signature.kind == "values")
    lab.warm_up()
    runner = LadderRunner(lab=lab, probe=session.probe, baseline=target.as_premise(base), budget=budget)
    top = base.steps[1].outcome
    first = runner.one(Rung.UNCOMPILED, kind="versions")
    if target.signature.kind == "values" and runner.baseline.uncompiled is None:
        runner.baseline.uncompiled = first.outcome
    rest = [rung for rung in rungs_below(top) if rung is not Rung.UNCOMPILED]
    ladder = [first, *runner.ask([(rung, ()) for rung in [*rest, Rung.KERNEL]], kind="versions")]
    failing = [step for step in ladder if step.verdict in (Verdict.BAD, Verdict.DIFFERENT)]
    warnings = []
    if failing and ladder[-1].verdict is Verdict.GOOD:
        warnings.append(
            f"torch {session.version} passes, but {', '.join(str(step.rung) for step in failing)} alone "
            f"{'fails' if len(failing) == 1 else 'fail'}: the fault may be hidden there rather than fixed"
        )
    elif ladder[-1].verdict is Verdict.BAD:
        warnings.append(f"torch {session.version} passed before and failed when the ladder was run")
    return Side(
        version=session.version, ladder=tuple(ladder), warnings=tuple(warnings), top=ladder[-1].outcome
    )


def side_by_side(good: Side, bad: Side) -> tuple[CodePair, ...]:
    """Returns graphs and generated code of both sides, for the kinds that both have."""
    rows = []
    for kind in SHOWN:
        runs = (good.graph, bad.graph) if kind == "post_grad" else (good.top, bad.top)
        one, two = (_artifact(run, kind) for run in runs)
        if one and two:
            rows.append(CodePair(kind=kind, good=_cut(one), bad=_cut(two), same=one == two))
    return tuple(rows)


def _artifact(outcome: Outcome | None, kind: str) -> str:
    """Returns the texts of one kind, without comments that only contain the script's path."""
    if outcome is None or not outcome.folder:
        return ""
    files = ChildFiles(outcome.folder)
    texts = [files.head(name, MOST_BYTES) or "" for name in files.names(f"artifacts/{kind}_*")[:6]]
    return "\n".join(line for text in texts for line in text.splitlines() if "# File: " not in line)


def _cut(text: str) -> str:
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return text[:SHOWN_CHARACTERS] + f"\n[... {len(text) - SHOWN_CHARACTERS:,} characters left out ...]"

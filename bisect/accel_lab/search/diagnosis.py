"""The whole search, from a failing program to a stage with its evidence.

Order: premise, gate of the warm server, ladder, alternatives to the blamed stage, localization within the
stage, alternatives to the component, proof, cross-check, and further faults behind the first. Every answer is
a :class:`Culprit` with its evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.errors import OutOfTime
from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import ByDesign, Component, Considered, CrossCheck, Culprit, Findings, Step
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import BLAMES, BY_BACKEND, LADDER, Confidence, Rung, Stage
from accel_lab.core.time_budget import Allowance
from accel_lab.core.verdict import Verdict

from . import cross_check, environment_hints, frames
from .alternatives import caches, outside_ladder, plain_uncompiled, registry
from .alternatives.case import Case, Moment
from .baseline import BaselineSearch
from .bisection import Bisection
from .bisection import Options as Options
from .ladder import Reading, between, index, read, row
from .ladder_runner import LadderRunner, Switches
from .localize.allowance import AFTER_STAGE_PLAIN_RUNS, allowance_of
from .localize.opening import Opened, open_stage
from .premise import NOT_RECORDED, Baseline, unrecorded, values_signature, wrong_values
from .proof import Proof, out_of_time, qualify
from .stage_proof import prove_stage


@dataclass(kw_only=True)
class Answer:
    """Result for one fault: its culprit, its ladder, and the switches that were tried."""

    culprit: Culprit | None
    ladder: list[Step] = field(default_factory=list)
    ablation: list[Step] = field(default_factory=list)
    witness: CrossCheck | None = None
    reading: Reading | None = None
    by_design: ByDesign | None = None
    outside: str = ""
    held: Switches = ()
    unrecorded: bool = False
    proof: Proof | None = None
    warnings: list[Evidence | str] = field(default_factory=list)


class Diagnosis(Bisection):
    """Runs the search on a :class:`Lab`."""

    _after_stage: Allowance | None = None

    def run(self) -> Findings:
        """Runs the search; ``findings`` is filled step by step, so an interruption keeps what is known."""
        findings = self.findings
        search = BaselineSearch(self._lab, self.probe)
        try:
            return self._search(search)
        except OutOfTime:
            self._time.note_unasked(
                "the rest of the search" if self.baseline else "whether it fails, and how often"
            )
            if self.baseline is None:
                self.baseline = search.baseline
                self._take_baseline(search.baseline, len(search.baseline.steps))
            findings.verdict = "fails" if findings.culprits else "inconclusive"
            return findings

    def _search(self, search: BaselineSearch) -> Findings:
        findings = self.findings
        base = self.baseline = search.run()
        self.probe = search.probe
        self._take_baseline(base, len(base.steps))
        if base.target is None:
            findings.by_design = base.by_design
            findings.verdict = "passes" if base.by_design is None else "by_design"
            return findings
        findings.outside = outside_ladder.detect(base) or ""
        if findings.outside:
            return findings
        if base.hidden:
            cache_search = caches.search(self._ladder_runner(base), base)
            findings.ladder, findings.ablation, self.pair = (
                base.steps[1:2],
                cache_search.rows,
                cache_search.pair,
            )
            findings.culprits = [cache_search.culprit] if cache_search.culprit is not None else []
            findings.verdict = "fails" if findings.culprits else "inconclusive"
            return findings
        if not base.ends_here:
            search.warm(base)
            self._take_baseline(base, len(base.steps))
        if base.ends_here:
            findings.verdict = "inconclusive"
            return findings
        if self._options.time_s is None:
            self._after_stage = allowance_of(base, AFTER_STAGE_PLAIN_RUNS)
        answer = self._answer(base, ())
        self._take(answer)
        if answer.by_design is not None:
            findings.verdict = "by_design"
            return findings
        blamed = answer.culprit is not None and answer.culprit.stage not in (Stage.ENVIRONMENT, Stage.EAGER)
        if blamed and not base.in_processes:
            self._ask_other_faults(base, answer)
        findings.verdict = "fails" if findings.culprits else "inconclusive"
        return findings

    # -- bookkeeping ---------------------------------------------------------------------------

    def _take(self, answer: Answer) -> None:
        findings = self.findings
        findings.ladder, findings.ablation = answer.ladder, answer.ablation
        findings.witness = answer.witness
        findings.by_design, findings.outside = answer.by_design, answer.outside
        findings.warnings += [w for w in answer.warnings if w not in findings.warnings]
        findings.confidence = round(1.0 - answer.proof.doubt, 6) if answer.proof is not None else None
        if answer.culprit is not None:
            findings.culprits = [answer.culprit]

    # -- one fault -----------------------------------------------------------------------------

    def _answer(self, base: Baseline, held: Switches) -> Answer:
        runner = self._ladder_runner(base, held)
        top = self._top(base, runner)
        plain = base.steps[0] if base.steps else None
        early = environment_hints.detect(self._lab, runner, top, plain)
        if early is not None:
            return Answer(culprit=early.culprit, ladder=early.ladder, proof=early.proof)
        rungs = rungs_below(top.outcome)
        self._time.phase(f"stage: {len(rungs)} rungs, a run takes {top.outcome.seconds:.0f} s")
        below, missing = runner.ask_in_time(rungs)
        try:
            below = self._with_full_time_limit(runner, base, below)
        except OutOfTime:
            missing = missing or rungs
        base.uncompiled = base.uncompiled or (below[0].outcome if below else None)
        answer = Answer(culprit=None, ladder=[*below, top])
        if missing:
            self._time.note_unasked(f"the rungs {', '.join(rung.value for rung in missing)}")
            answer.warnings.append(between(answer.ladder, missing))
            return answer
        self._conclude(base, runner, answer)
        if answer.unrecorded:
            self.probe = unrecorded(self.probe)
            base.uncompiled = None
            base.notes.append(NOT_RECORDED)
            self.findings.warnings.append(NOT_RECORDED)
            return self._answer(base, held)
        return self._in_processes(base, answer) if answer.held else answer

    def _in_processes(self, base: Baseline, answer: Answer) -> Answer:
        """Runs the ladder in processes that the script starts; keeps ``answer`` if that names no stage."""
        before, self.everywhere = base.uncompiled, answer.held
        base.uncompiled = None
        again = answer
        if self._top(base, self._ladder_runner(base)).verdict is Verdict.BAD:
            again = self._answer(base, ())
        culprit = again.culprit
        if culprit is None or culprit.stage in (Stage.EAGER, Stage.ENVIRONMENT):
            self.everywhere, base.uncompiled = (), before
            return answer
        base.in_processes = True
        why = Evidence.of(EvidenceKind.IN_OTHER_PROCESSES)
        again.culprit = replace(culprit, evidence=(*culprit.evidence, why))
        return again

    @staticmethod
    def _with_full_time_limit(runner: LadderRunner, base: Baseline, below: list[Step]) -> list[Step]:
        """For a hang: reruns the rungs that hit the short time limit with the full one, lowest first."""
        if base.target is None or base.target.kind != "timeout":
            return below
        runner.full_time_limit = True
        for place, step in enumerate(below):
            if step.verdict is Verdict.BAD:
                below[place] = runner.one(step.rung)
                if below[place].verdict is Verdict.BAD:
                    break
        runner.full_time_limit = False
        return below

    def _top(self, base: Baseline, runner: LadderRunner) -> Step:
        """Returns the kernel rung's row, from the baseline unless switches are held."""
        if runner.held:
            return runner.one(Rung.KERNEL)
        runs = [step for step in base.steps if not step.note]
        failing = [step for step in runs if step.verdict is Verdict.BAD]
        warm = [step for step in failing if step.outcome.warm]
        recorded = [step for step in failing if step.outcome.facts]
        chosen = (warm or recorded or failing or base.steps)[-1]
        return replace(chosen, label="", runs=base.tally.runs, failures=base.tally.failures)

    def _conclude(self, base: Baseline, runner: LadderRunner, answer: Answer) -> None:
        reading = answer.reading = read([(step.rung, step.verdict) for step in answer.ladder])
        start = reading.start
        if start is None:
            answer.warnings.append("no rung of the ladder shows the failure again")
            return
        stage = BLAMES[start] if reading.last_good is not None else Stage.EAGER
        if stage is not Stage.EAGER and start is not Rung.KERNEL and self._custom_backend(answer, start):
            stage = Stage.KERNEL
        considered = [*base.alternatives, *reading.alternatives()]
        answer.warnings += [alternative.why for alternative in reading.alternatives() if reading.non_monotone]
        case = Case(runner=runner, ladder=answer.ladder, reading=reading, start=start, stage=stage)
        rulings = registry.ask(case, Moment.STAGE)
        answer.ladder, considered = case.ladder, [*considered, *rulings.considered]
        answer.warnings += rulings.warnings
        answer.by_design, answer.outside = rulings.by_design, rulings.outside
        answer.held, answer.unrecorded = rulings.held, rulings.unrecorded
        if answer.by_design is not None or answer.outside or answer.unrecorded:
            return
        if rulings.culprit is not None:
            answer.culprit, answer.proof = qualify(rulings.culprit, considered), rulings.proof
        elif stage is Stage.EAGER:
            self._eager(base, answer, considered)
        else:
            opened = open_stage(
                case,
                components=self._options.components,
                full_ablation=self._options.ablation == "full",
                allowance=self._after_stage,
            )
            answer.ladder = case.ladder
            answer.ablation = opened.ablation
            answer.warnings += opened.warnings
            self._prove(runner, answer, opened, [*considered, *opened.alternatives])
        self._add_values(base, answer)
        if self._options.witness and answer.culprit is not None:
            self._cross_check(runner, answer, answer.culprit)

    def _cross_check(self, runner: LadderRunner, answer: Answer, culprit: Culprit) -> None:
        """Asks torch's CompilerBisector for a second opinion, if time allows."""
        try:
            with self._time.allow(self._after_stage):
                answer.witness = cross_check.ask(runner, culprit, answer.ladder)
        except OutOfTime:
            self._time.note_unasked("the cross-check with torch's own CompilerBisector")

    @staticmethod
    def _prove(
        runner: LadderRunner, answer: Answer, opened: Opened, considered: Sequence[Considered]
    ) -> None:
        try:
            proved = prove_stage(runner, answer.ladder, opened.culprit, considered)
        except OutOfTime:
            left = "the repeats that would prove the stage"
            runner.lab.time_budget.note_unasked(left)
            answer.culprit = qualify(opened.culprit, [*considered, out_of_time(left)])
            return
        answer.culprit, answer.ladder, answer.proof = proved.culprit, proved.ladder, proved.proof
        answer.reading = proved.reading or answer.reading
        answer.warnings += proved.warnings

    @staticmethod
    def _add_values(base: Baseline, answer: Answer) -> None:
        wrong = wrong_values(base.values)
        if wrong and answer.culprit is not None:
            answer.culprit = replace(answer.culprit, evidence=(*answer.culprit.evidence, *wrong))

    @staticmethod
    def _eager(base: Baseline, answer: Answer, considered: Sequence[Considered]) -> None:
        """Handles a script that fails uncompiled: torch.compile is not to blame.

        For wrong values the reference is an uncompiled run, so a different uncompiled run only shows that the
        script is not deterministic.
        """
        first = answer.ladder[0]
        if first.verdict not in (Verdict.BAD, Verdict.DIFFERENT):
            answer.warnings.append("no rung passes, and an uncompiled run could not be made")
            return
        if base.target is not None and base.target.kind == "values":
            answer.warnings.append(Evidence.of(EvidenceKind.VALUES_VARY_UNCOMPILED))
            return
        same = first.verdict is Verdict.BAD
        broken = [one.why for one in considered if one.name == plain_uncompiled.NAME and one.open]
        if broken:
            answer.warnings += broken
            return
        early = environment_hints.of_script(first.outcome)
        if early is not None:
            answer.culprit = early
            return
        eager = Culprit(
            stage=Stage.EAGER,
            confidence=Confidence.LIKELY,
            component=_eager_component(first.outcome),
            evidence=(Evidence.of(EvidenceKind.FAILS_UNCOMPILED, same=same),),
        )
        answer.culprit = qualify(eager, considered)

    @staticmethod
    def _custom_backend(answer: Answer, start: Rung) -> bool:
        """Whether the failure starts above AOTAutograd in a backend that the script supplies."""
        regions = answer.ladder[-1].outcome.facts.get("regions") or []
        return index(start) > index(Rung.AOT) and any(r.get("backend") not in _KNOWN for r in regions)

    # -- more than one fault -------------------------------------------------------------------

    def _ask_other_faults(self, base: Baseline, first: Answer) -> None:
        try:
            with self._time.allow(self._after_stage):
                self._other_faults(base, first)
        except OutOfTime:
            self._time.note_unasked("whether there is a second fault")

    def _other_faults(self, base: Baseline, first: Answer) -> None:
        """Tests whether the script still fails with the first culprit's regions held on a good rung."""
        findings = self.findings
        answer = first
        held: dict[int, Rung] = {}
        while len(findings.culprits) < self._options.most_faults:
            regions = self._failing_regions(base, answer)
            everyone = [int(r["id"]) for r in row(first.ladder, Rung.KERNEL).outcome.facts.get("regions", [])]
            good = answer.reading.last_good if answer.reading else None
            if not regions or good is None or set(everyone) <= set(held) | set(regions):
                return
            held.update(dict.fromkeys(regions, good))
            switches: Switches = (("hold", {str(region): rung.value for region, rung in held.items()}),)
            rest = replace(base)
            runner = self._ladder_runner(rest, switches)
            top = runner.one(Rung.KERNEL, kind="other faults")
            if top.verdict is Verdict.SKIP or not self._still_fails(rest, top):
                self._note_alone(findings)
                return
            answer = self._answer(rest, switches)
            if answer.culprit is None or answer.culprit.stage in (Stage.EAGER, Stage.ENVIRONMENT):
                return
            more = Evidence.of(EvidenceKind.SECOND_FAULT, regions=sorted(held))
            findings.culprits.append(replace(answer.culprit, evidence=(more, *answer.culprit.evidence)))

    def _still_fails(self, rest: Baseline, top: Step) -> bool:
        """Whether the run with regions held back fails; the remaining failure becomes the new target."""
        if rest.target is None or rest.target.kind != "values" or top.outcome.failed:
            rest.target = top.signature
            return top.outcome.failed and rest.target is not None
        if rest.uncompiled is None:
            return False
        rest.values = self._lab.differences(top.outcome, rest.uncompiled, rest.reference)
        rest.target = values_signature(rest.values)
        return bool(rest.values)

    @staticmethod
    def _note_alone(findings: Findings) -> None:
        culprit = findings.culprits[0]
        alone = Evidence.of(EvidenceKind.NO_SECOND_FAULT)
        findings.culprits[0] = replace(culprit, evidence=(*culprit.evidence, alone))

    def _failing_regions(self, base: Baseline, answer: Answer) -> list[int]:
        """Returns the regions that raised or returned wrong values at the first failing rung.

        At a higher rung a region may be wrong by another fault, which must not be held back along with this
        one.
        """
        start = answer.reading.start if answer.reading is not None else None
        outcome = row(answer.ladder, start or Rung.KERNEL).outcome
        regions = outcome.facts.get("regions") or []
        if len(regions) < 2 or base.uncompiled is None:
            return []
        raised = {int(caught["region"]) for caught in outcome.facts.get("caught", [])}
        if raised:
            return sorted(raised)
        names = {d.region for d in self._lab.differences(outcome, base.uncompiled, base.reference)}
        return sorted(int(region["id"]) for region in regions if region_key(region, regions) in names)


def rungs_below(top: Outcome) -> list[Rung]:
    """Returns the rungs to run; a custom backend uses none of Inductor's decompositions or passes."""
    backends = {str(region.get("backend")) for region in top.facts.get("regions") or []}
    if backends and not backends & _KNOWN:
        return [rung for rung in LADDER if rung.record.own_backends]
    return [rung for rung in LADDER if rung is not Rung.KERNEL]


def region_key(region: dict[str, object], regions: Sequence[dict[str, object]]) -> str:
    """Returns the name of a region in ``numerics.records``: its name and its turn among equals."""
    same = [r for r in regions if r["name"] == region["name"]]
    turn = [r["id"] for r in same].index(region["id"])
    return f"{region['name']}#{turn}"


def _eager_component(outcome: Outcome) -> Component | None:
    """Returns the function that raised; None for a failed assertion, which names only the check."""
    raised = outcome.raised
    if raised is None or raised.type.rpartition(".")[2] == "AssertionError":
        return None
    frame = frames.innermost_outside_library(raised)
    # The name of a module's body, or of a lambda, says nothing.
    if frame is None or frame.function.startswith("<"):
        return None
    return Component(kind="function", name=frame.function, detail=f"{frame.file}:{frame.line}")


#: Backends whose parts the ladder knows.
_KNOWN = frozenset(BY_BACKEND)

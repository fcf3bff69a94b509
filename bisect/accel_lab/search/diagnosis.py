"""The whole search: from a failing program to a stage with its evidence.

The order is: premise, gate of the warm server, ladder, what lies beside the ladder (meta kernels,
stale guards, loop IR), the pair of runs that proves, the single switches, the second witness, and
other faults behind the first. Every answer is a :class:`Culprit` with the evidence in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accel_lab.core.findings import Component, Culprit, Findings, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.stages import BLAMES, LADDER, LONG_LADDER, Confidence, Rung, Stage
from accel_lab.core.verdict import Verdict

from . import beside, environment_hints, frames, hidden, kernel_stage, second_witness
from .baseline import Baseline, BaselineSearch
from .climb import Climber, Switches, tally_of
from .components import name_component
from .divergence import first_divergence
from .flaky import doubt, passes_needed
from .ladder import Reading, read
from .named import Named
from .searching import Options as Options
from .searching import Searching


@dataclass(kw_only=True)
class Answer:
    """One fault: its culprit, the ladder that told it, and the switches that were tried."""

    culprit: Culprit | None
    ladder: list[Step] = field(default_factory=list)
    ablation: list[Step] = field(default_factory=list)
    witness: dict[str, object] | None = None
    reading: Reading | None = None
    ambiguous: bool = False
    doubt: float = 1.0
    warnings: list[str] = field(default_factory=list)


class Diagnosis(Searching):
    """Runs the search on a :class:`Lab`."""

    def run(self) -> Findings:
        """All that can be found out; ``findings`` is filled as it goes, so an interruption keeps the rest."""
        found = self.findings
        search = BaselineSearch(self._lab, self._probe)
        base = self.baseline = search.run()
        self._take_baseline(base, len(base.steps))
        if base.target is None:
            found.verdict = "passes"
            return found
        if base.hidden:
            told = hidden.look(self._climber(base), base)
            found.ladder, found.ablation, self.pair = base.steps[1:2], told.rows, told.pair
            found.culprits = [told.culprit] if told.culprit is not None else []
            found.verdict = "fails" if found.culprits else "inconclusive"
            return found
        if not base.untold:
            search.warm(base)
            self._take_baseline(base, len(base.steps))
        if base.untold:
            found.verdict = "inconclusive"
            return found
        answer = self._answer(base, ())
        self._take(answer)
        if answer.culprit is not None and answer.culprit.stage not in (Stage.ENVIRONMENT, Stage.EAGER):
            self._other_faults(base, answer)
        found.verdict = "fails" if found.culprits else "inconclusive"
        return found

    # -- bookkeeping ---------------------------------------------------------------------------

    def _take(self, answer: Answer) -> None:
        found = self.findings
        found.ladder, found.ablation = answer.ladder, answer.ablation
        found.witness = answer.witness
        found.warnings += [w for w in answer.warnings if w not in found.warnings]
        found.confidence = round(1.0 - answer.doubt, 6)
        if answer.culprit is not None:
            found.culprits = [answer.culprit]

    # -- one fault -----------------------------------------------------------------------------

    def _answer(self, base: Baseline, held: Switches) -> Answer:
        climber = self._climber(base, held)
        top = self._top(base, held, climber)
        early = environment_hints.look(self._lab, climber, top)
        if early is not None:
            return Answer(culprit=early, ladder=[top])
        rungs = rungs_below(top.outcome)
        below = climber.ask((rung, ()) for rung in rungs)
        ladder = [*self._with_patience(climber, base, below), top]
        base.uncompiled = base.uncompiled or (below[0].outcome if below else None)
        answer = Answer(culprit=None, ladder=ladder)
        self._conclude(base, climber, answer)
        return answer

    @staticmethod
    def _with_patience(climber: Climber, base: Baseline, below: list[Step]) -> list[Step]:
        """For a hang: the lowest rung that ran out of its short time gets all of it, then the next one."""
        if base.target is None or base.target.kind != "timeout":
            return below
        climber.patient = True
        for place, step in enumerate(below):
            if step.verdict is Verdict.BAD:
                below[place] = climber.one(step.rung)
                if below[place].verdict is Verdict.BAD:
                    break
        climber.patient = False
        return below

    def _top(self, base: Baseline, held: Switches, climber: Climber) -> Step:
        """The kernel rung's row: known from the baseline where nothing is held back."""
        if held:
            return climber.one(Rung.KERNEL)
        runs = [step for step in base.steps if not step.note]
        failing = [step for step in runs if step.verdict is Verdict.BAD]
        warm = [step for step in failing if step.outcome.warm]
        recorded = [step for step in failing if step.outcome.facts]
        chosen = (warm or recorded or failing or base.steps)[-1]
        return replace(chosen, label="", runs=base.tally.runs, failures=base.tally.failures)

    def _conclude(self, base: Baseline, climber: Climber, answer: Answer) -> None:
        reading = answer.reading = read([(step.rung, step.verdict) for step in answer.ladder])
        if reading.islands:
            answer.warnings.append(
                "the ladder is not monotone: it fails at "
                + ", ".join(map(str, reading.islands))
                + f" and passes again at {reading.last_good}"
            )
        start = reading.different[0] if reading.different else reading.first_bad
        if start is None:
            answer.warnings.append("no rung of the ladder shows the failure again")
            return
        if reading.last_good is None:
            self._eager(answer)
            return
        stage = BLAMES[start]
        if start is not Rung.KERNEL and self._custom_backend(answer, start):
            stage = Stage.KERNEL
        culprit: Culprit | None = None
        beside_ladder = beside.look(climber, answer.ladder, reading, start)
        answer.ladder = beside_ladder.ladder
        answer.warnings += beside_ladder.warnings
        answer.ambiguous |= beside_ladder.stale
        if beside_ladder.culprit is not None:
            answer.culprit, answer.doubt = beside_ladder.culprit, beside_ladder.doubt
        elif stage is Stage.KERNEL:
            culprit = self._kernel(climber, answer)
        else:
            culprit = self._stage(climber, answer, reading, start, stage)
        if culprit is not None:
            answer.culprit = self._contest(answer, culprit, start)
        self._prove(climber, answer, start)
        self._qualify(base, answer)
        if self._options.witness and answer.culprit is not None:
            answer.witness = second_witness.ask(climber, answer.culprit, answer.ladder)

    @staticmethod
    def _eager(answer: Answer) -> None:
        """It fails with nothing compiled: torch.compile is not to blame."""
        first = answer.ladder[0]
        same = first.verdict is Verdict.BAD
        early = environment_hints.of_script(first.outcome)
        if early is not None:
            answer.culprit = early
            return
        answer.culprit = Culprit(
            stage=Stage.EAGER,
            confidence=Confidence.LIKELY,
            component=_eager_component(first.outcome),
            evidence=(
                "the script fails "
                + ("in the same way" if same else "in another way")
                + " when torch.compile is the identity, so no part of the compiler is needed for it",
            ),
        )
        answer.doubt = 0.0

    @staticmethod
    def _custom_backend(answer: Answer, start: Rung) -> bool:
        """Whether what starts to fail above AOTAutograd is a backend that the script brings itself."""
        regions = answer.ladder[-1].outcome.facts.get("regions") or []
        return _index(start) > _index(Rung.AOT) and any(r.get("backend") not in _KNOWN for r in regions)

    def _stage(
        self, climber: Climber, answer: Answer, reading: Reading, start: Rung, stage: Stage
    ) -> Culprit:
        below = _row(answer.ladder, reading.last_good)
        at = _row(answer.ladder, start)
        evidence = [
            f"passes at {below.rung} and fails {_how(at)} at {at.rung}, which adds {_adds(at.rung)}",
        ]
        hint = frames.innermost(at.outcome.raised.frames) if at.outcome.raised else None
        if hint is not None and hint[0] is not stage:
            # The frames of another failure than the script's tell where that one ends, and no more.
            if at.verdict is Verdict.BAD:
                evidence.append(f"the innermost frame lies in {hint[1].file} ({hint[1].function})")
            if hint[0] is Stage.PARTITIONER and stage is Stage.AOT_AUTOGRAD:
                # Code that both partitioners share fails with either, so only its frames tell.
                stage = Stage.PARTITIONER
        named = Named()
        if self._options.components:
            named = name_component(climber, stage, at, ladder=answer.ladder)
            stage = named.stage or stage
            answer.ambiguous |= named.contested
        if misread := beside.misread_layout(climber, stage, at):
            answer.ambiguous = True
            evidence.append(misread)
            part = named.component
            named.component = replace(part, confidence=Confidence.LIKELY) if part is not None else None
        return Culprit(
            stage=stage,
            confidence=Confidence.LIKELY,
            component=named.component,
            evidence=(*evidence, *named.evidence),
            exhibits=tuple(named.exhibits),
        )

    def _kernel(self, climber: Climber, answer: Answer) -> Culprit:
        split = kernel_stage.split(climber, answer.ladder, full=self._options.ablation == "full")
        answer.ladder, answer.ablation, answer.ambiguous = split.ladder, split.ablation, split.ambiguous
        named = Named()
        if self._options.components:
            fallback = next((s.verdict for s in split.ablation if s.switch == "fallback"), None)
            all_off = fallback if split.stage is not Stage.LOWERING else None
            top = _row(answer.ladder, Rung.KERNEL)
            named = name_component(climber, split.stage, top, all_off=all_off, ablation=split.ablation)
            diverged = first_divergence(climber, split.stage, answer.ladder, ablation=split.ablation)
            if diverged is not None:
                named.exhibits.append(diverged.exhibit)
                named.component = named.component or split.component or diverged.component
        refusal = beside.unchecked(answer.ladder, named.component) if split.stage is Stage.LOWERING else ""
        answer.ambiguous |= bool(refusal)
        return Culprit(
            stage=split.stage,
            confidence=Confidence.LIKELY,
            component=named.component or split.component,
            evidence=(*split.evidence, *named.evidence, *([refusal] if refusal else [])),
            exhibits=tuple(named.exhibits),
        )

    @staticmethod
    def _contest(answer: Answer, culprit: Culprit, start: Rung) -> Culprit:
        """Nothing below AOTAutograd knows of autograd: to keep its rules is not up to those stages alone."""
        raised = _row(answer.ladder, start).outcome.raised
        if culprit.stage not in _BELOW_AUTOGRAD or not frames.is_autograds(raised):
            return culprit
        answer.ambiguous = True
        part = culprit.component
        return replace(
            culprit,
            component=replace(part, confidence=Confidence.LIKELY) if part is not None else None,
            evidence=(
                *culprit.evidence,
                "autograd itself refuses there, and nothing below AOTAutograd knows of autograd: what "
                "AOTAutograd or the partitioner saves, or writes back, could be the fault as well",
            ),
        )

    # -- proof ---------------------------------------------------------------------------------

    def _prove(self, climber: Climber, answer: Answer, start: Rung) -> None:
        """Ask the neighbours again: the culprit out (must pass every time) and in (must fail)."""
        culprit = answer.culprit
        if culprit is None or culprit.confidence is Confidence.PROVEN or culprit.stage is Stage.EAGER:
            return
        reading = read([(s.rung, s.verdict) for s in answer.ladder if s.rung is not Rung.META])
        if reading.first_bad is None or reading.last_good is None:
            return
        good, bad = _row(answer.ladder, reading.last_good), _row(answer.ladder, reading.first_bad)
        climber.patient = True
        bad = climber.repeat(bad, 1, "proof")
        answer.ladder = _with(answer.ladder, bad)
        failing = tally_of(
            s for s in answer.ladder if _index(s.rung) >= _index(bad.rung) and s.verdict is Verdict.BAD
        )
        needed = passes_needed(failing, self._options.budget / _BOUNDARIES)
        if needed > good.runs:
            good = climber.repeat(good, needed - good.runs, "proof", until_bad=True)
            answer.ladder = _with(answer.ladder, good)
        if good.verdict is not Verdict.GOOD or bad.verdict is not Verdict.BAD:
            self._reconsider(climber, answer)
            return
        answer.doubt = min(1.0, _BOUNDARIES * doubt(failing, good.runs))
        sure = (
            answer.doubt <= self._options.budget
            # A failure that turns out flaky only now: the rungs were called good after too few runs.
            and (climber.baseline.flaky or bad.failures == bad.runs)
            and not reading.different
            and not answer.ambiguous
            and reading.monotone
            and culprit.stage is (Stage.CODEGEN if bad.rung is Rung.KERNEL else BLAMES[bad.rung])
        )
        told = (
            f"asked again: {good.rung} passed {good.runs} of {good.runs} runs, "
            f"{bad.rung} failed {bad.failures} of {bad.runs}"
        )
        answer.culprit = replace(
            culprit,
            confidence=Confidence.PROVEN if sure else culprit.confidence,
            evidence=(*culprit.evidence, told),
        )
        self._gap(answer, good.rung, bad.rung)

    @staticmethod
    def _gap(answer: Answer, good: Rung, bad: Rung) -> None:
        """A rung between the two that told nothing: what it adds may be at fault as well as what is named.

        Where the component alone was left out, and that cured, the pair of runs says it without the rung.
        """
        culprit = answer.culprit
        untold = [
            step.rung
            for step in answer.ladder
            if step.verdict is Verdict.SKIP
            and step.rung in LADDER
            and _index(good) < _index(step.rung) < _index(bad)
        ]
        if not untold or culprit is None:
            return
        if culprit.component is not None and culprit.component.confidence is Confidence.PROVEN:
            return
        told = f"{', '.join(map(str, untold))} told nothing, so what is added there is not ruled out"
        answer.warnings.append(told)
        answer.culprit = replace(
            culprit, confidence=Confidence.INCONCLUSIVE, evidence=(*culprit.evidence, told)
        )

    def _reconsider(self, climber: Climber, answer: Answer) -> None:
        """A rung that was called good has failed: the failure is flaky after all, so nothing is proven."""
        answer.warnings.append(
            "a rung that passed at first failed when it was asked again: the script is flaky"
        )
        reading = read([(s.rung, s.verdict) for s in answer.ladder if s.rung in LADDER])
        if reading.first_bad is None or reading.last_good is None or answer.culprit is None:
            answer.culprit = None
            return
        good = _row(answer.ladder, reading.last_good)
        failing = tally_of(s for s in answer.ladder if _index(s.rung) >= _index(reading.first_bad))
        good = climber.repeat(
            good,
            max(0, passes_needed(failing, self._options.budget / _BOUNDARIES) - good.runs),
            "proof",
            until_bad=True,
        )
        answer.ladder = _with(answer.ladder, good)
        if good.verdict is Verdict.BAD:
            self._reconsider(climber, answer)
            return
        answer.doubt = min(1.0, _BOUNDARIES * doubt(failing, good.runs))
        stage = BLAMES[reading.first_bad]
        # An island that was told stays told; the rungs to hold other regions on are the new ones.
        told = answer.reading.islands if answer.reading else ()
        answer.reading = replace(reading, islands=told or reading.islands)
        answer.culprit = Culprit(
            stage=stage,
            # The rungs were chosen after looking at the runs, so the bound on luck no longer holds.
            confidence=Confidence.LIKELY,
            evidence=(
                f"{good.rung} passed {good.runs} of {good.runs} runs; "
                f"{reading.first_bad} failed {_row(answer.ladder, reading.first_bad).failures} times",
            ),
        )

    def _qualify(self, base: Baseline, answer: Answer) -> None:
        """Take confidence back where the premise is in doubt."""
        culprit, reading = answer.culprit, answer.reading
        if culprit is None or reading is None:
            return
        wrong = tuple(difference.line for difference in base.values[:2])
        if wrong:
            culprit = answer.culprit = replace(culprit, evidence=(*culprit.evidence, *wrong))
        if base.doubtful or not reading.monotone:
            answer.culprit = replace(culprit, confidence=Confidence.INCONCLUSIVE)

    # -- more than one fault -------------------------------------------------------------------

    def _other_faults(self, base: Baseline, first: Answer) -> None:
        """With the regions of the first culprit kept below it, does the script still fail?"""
        found = self.findings
        answer = first
        held: dict[int, Rung] = {}
        while len(found.culprits) < self._options.most_faults:
            regions = self._guilty_regions(base, answer)
            everyone = [
                int(r["id"]) for r in _row(first.ladder, Rung.KERNEL).outcome.facts.get("regions", [])
            ]
            good = answer.reading.last_good if answer.reading else None
            if not regions or good is None or set(everyone) <= set(held) | set(regions):
                return
            held.update(dict.fromkeys(regions, good))
            switches: Switches = (("hold", {str(region): rung.value for region, rung in held.items()}),)
            rest = replace(base, target=base.target)
            climber = self._climber(rest, switches)
            top = climber.one(Rung.KERNEL, kind="other faults")
            if top.outcome.status is Status.OK or top.verdict is Verdict.SKIP:
                self._note_alone(found)
                return
            rest.target = top.signature
            if rest.target is None:
                return
            rest.uncompiled = base.uncompiled
            answer = self._answer(rest, switches)
            if answer.culprit is None or answer.culprit.stage in (Stage.EAGER, Stage.ENVIRONMENT):
                return
            more = f"a second fault: it stays when the regions {sorted(held)} are kept on a rung that passes"
            found.culprits.append(replace(answer.culprit, evidence=(more, *answer.culprit.evidence)))

    @staticmethod
    def _note_alone(found: Findings) -> None:
        culprit = found.culprits[0]
        line = (
            "with only the failing region kept below that stage, and all others compiled, the script passes"
        )
        found.culprits[0] = replace(culprit, evidence=(*culprit.evidence, line))

    def _guilty_regions(self, base: Baseline, answer: Answer) -> list[int]:
        """The compiled regions that raised or returned something else than uncompiled."""
        top = _row(answer.ladder, Rung.KERNEL).outcome
        regions = top.facts.get("regions") or []
        if len(regions) < 2 or base.uncompiled is None:
            return []
        raised = {int(row["region"]) for row in top.facts.get("caught", [])}
        if raised:
            return sorted(raised)
        names = {d.region for d in self._lab.differences(top, base.uncompiled)}
        return sorted(int(region["id"]) for region in regions if region_key(region, regions) in names)


def rungs_below(top: Outcome) -> list[Rung]:
    """The rungs worth asking: a backend of the script's own has no decompositions or passes of ours."""
    backends = {str(region.get("backend")) for region in top.facts.get("regions") or []}
    if backends and not backends & _KNOWN:
        return [Rung.UNCOMPILED, Rung.DYNAMO, Rung.AOT]
    return [rung for rung in LADDER if rung is not Rung.KERNEL]


def region_key(region: dict[str, object], regions: Sequence[dict[str, object]]) -> str:
    """The name under which ``numerics.records`` files a region: its name, numbered among equals."""
    same = [r for r in regions if r["name"] == region["name"]]
    turn = [r["id"] for r in same].index(region["id"])
    return f"{region['name']}#{turn}"


def _eager_component(outcome: Outcome) -> Component | None:
    """The function that raised; a check that found wrong numbers names itself, not what made them."""
    raised = outcome.raised
    if raised is None or not raised.frames or raised.type.rpartition(".")[2] == "AssertionError":
        return None
    frame = raised.frames[-1]
    return Component(kind="function", name=frame.function, detail=f"{frame.file}:{frame.line}")


def _adds(rung: Rung) -> str:
    return {
        Rung.UNCOMPILED: "the script itself",
        Rung.DYNAMO: "Dynamo's capture and guards",
        Rung.AOT: "AOTAutograd (functionalization and the joint graph)",
        Rung.PARTITION: "the min-cut partitioner",
        Rung.DECOMP: "Inductor's decomposition table",
        Rung.FX: "Inductor's FX passes",
        Rung.LOOPS: "Inductor's lowering to loop IR",
        Rung.SCHEDULED: "Inductor's scheduler",
        Rung.KERNEL: "lowering, scheduling, code generation and the kernels",
        Rung.META: "a check of every meta kernel",
    }[rung]


def _how(step: Step) -> str:
    return "in the same way" if step.verdict is Verdict.BAD else "in another way"


def _row(ladder: Sequence[Step], rung: Rung | None) -> Step:
    return next(step for step in ladder if step.rung is rung)


def _with(ladder: Sequence[Step], step: Step) -> list[Step]:
    return [step if row.rung is step.rung else row for row in ladder]


#: The pair that is proven was picked among so many neighbours on the ladder, so luck had as many chances.
_BOUNDARIES = len(LADDER) - 1

_BELOW_AUTOGRAD = frozenset({Stage.FX_PASSES, Stage.KERNEL, *frames.KERNEL_STAGES})

#: The backends whose parts the ladder knows.
_KNOWN = frozenset({"inductor", "aot_eager_decomp_partition", "aot_eager", "eager"})


def _index(rung: Rung) -> int:
    return LONG_LADDER.index(rung) if rung in LONG_LADDER else -1

"""Tests for differences that are by design: other random numbers from the same seed, other roundings.

A setting that fixes the failure is not enough: eager's generator also hides a wrong lowering of a random
operator. So the script's own check is tested first, with nothing compiled. If it refuses equally good numbers
(drawn from another seed, or moved by one unit in the last place), it requires eager's exact numbers, which no
compiler promises. If it accepts them, it found something else in compiled code: masks that do not match their
gradients, one seed with two results, a value out of range.
"""

from __future__ import annotations

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import ByDesign, Considered, Step
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.torch_settings import EMULATE_CASTS, FALLBACK_RANDOM
from accel_lab.core.verdict import Verdict
from accel_lab.search.other_numbers import RANDOM, SEEDS, explained

from .case import NOTHING, Alternative, Case, Moment, Ruling

ROUNDING = "rounding"
ROUNDINGS = (1, 2)
#: Signature kinds of a script whose own check failed.
_OF_THE_SCRIPT = frozenset({"exception", "exit", "check"})
_LOW_PRECISION = frozenset({"bfloat16", "float16"})
#: First failing rungs that can be by design; graphs of lower rungs call eager's kernels, random ones too.
_STARTS = frozenset({Rung.DECOMP, Rung.FX, Rung.LOOPS, Rung.SCHEDULED, Rung.KERNEL})


def ask_random(case: Case) -> Ruling:
    """Tests whether the script refuses other random numbers uncompiled and accepts eager's compiled."""
    runner = case.runner
    others = runner.ask([(Rung.UNCOMPILED, (("other_random", seed),)) for seed in SEEDS], "by design")
    refused = [step for step in others if _alike(step, _top(case))]
    if not refused:
        why = Evidence.of(EvidenceKind.PASSES_WITH_OTHER_NUMBERS)
        return Ruling(considered=Considered(name=RANDOM, open=False, why=why))
    aligned = runner.one(
        Rung.KERNEL, (("inductor", {FALLBACK_RANDOM.key: FALLBACK_RANDOM.value}),), "by design"
    )
    if aligned.verdict is not Verdict.GOOD:
        why = Evidence.of(EvidenceKind.FAILS_WITH_SETTING, setting=FALLBACK_RANDOM.code)
        return Ruling(considered=Considered(name=RANDOM, open=aligned.verdict is Verdict.SKIP, why=why))
    if len(refused) < len(others) or not _explained(case, refused[0]):
        why = Evidence.of(
            EvidenceKind.RANDOM_NUMBERS_MAY_EXPLAIN,
            failing=len(refused),
            seeds=len(others),
            setting=FALLBACK_RANDOM.code,
        )
        return Ruling(considered=Considered(name=RANDOM, open=True, why=why), warnings=(why,))
    return Ruling(
        by_design=ByDesign(
            kind=RANDOM,
            setting=FALLBACK_RANDOM.code,
            why=Evidence.of(EvidenceKind.OTHER_RANDOM_NUMBERS),
            evidence=(
                Evidence.of(EvidenceKind.FAILS_WITH_OTHER_SEEDS, failing=len(refused), seeds=len(others)),
                Evidence.of(EvidenceKind.PASSES_WITH_ONLY_SETTING, setting=FALLBACK_RANDOM.code),
            ),
        )
    )


def _explained(case: Case, other: Step) -> bool:
    runner = case.runner
    plain = runner.baseline.uncompiled
    return plain is not None and explained(runner.lab, _top(case).outcome, plain, [other.outcome])


def ask_rounding(case: Case) -> Ruling:
    """Tests whether compiled values are as near to float64 as eager's and refused only for rounding.

    It stays open if they are nearer than eager's rounding explains: eager may be the side that is wrong.
    """
    runner, top = case.runner, _top(case)
    plain = runner.baseline.uncompiled
    reference = runner.one(Rung.UNCOMPILED, (("shadow", True),), "by design")
    if plain is None or reference.outcome.status is not Status.OK:
        return NOTHING
    if runner.lab.differences(top.outcome, plain, reference.outcome):
        why = Evidence.of(EvidenceKind.FAR_FROM_FLOAT64)
        return Ruling(considered=Considered(name=ROUNDING, open=False, why=why))
    low = sorted(_LOW_PRECISION & set(top.outcome.facts.get("dtypes") or ()))
    emulated = (("inductor", {EMULATE_CASTS.key: EMULATE_CASTS.value}),)
    if low and runner.one(Rung.KERNEL, emulated, "by design").verdict is Verdict.GOOD:
        return Ruling(
            by_design=ByDesign(
                kind=ROUNDING,
                setting=EMULATE_CASTS.code,
                why=Evidence.of(EvidenceKind.ROUNDS_LESS_OFTEN, dtypes=low),
                evidence=(
                    Evidence.of(EvidenceKind.NEAR_FLOAT64),
                    Evidence.of(EvidenceKind.PASSES_WITH_ONLY_SETTING, setting=EMULATE_CASTS.code),
                ),
            )
        )
    if not low and runner.lab.eager_is_off(top.outcome, reference.outcome):
        # The alternative eager_kernel goes on from here, once the component is known.
        why = Evidence.of(EvidenceKind.EAGER_FAR_FROM_FLOAT64)
        return Ruling(considered=Considered(name=ROUNDING, open=True, why=why))
    nudged = [(Rung.UNCOMPILED, (("other_rounding", number),)) for number in ROUNDINGS]
    others = runner.ask(nudged, "by design")
    if all(_alike(step, top) for step in others):
        # pytorch#157959: a lowering may have to match the exact bits (division by a constant). No setting
        # shows that these roundings are intended, so the alternative stays open.
        why = Evidence.of(EvidenceKind.REFUSES_ROUNDINGS, runs=len(others))
        return Ruling(considered=Considered(name=ROUNDING, open=True, why=why, component=True))
    why = Evidence.of(EvidenceKind.ACCEPTS_ROUNDINGS)
    return Ruling(considered=Considered(name=ROUNDING, open=False, why=why))


def _top(case: Case) -> Step:
    """The run of the script as the user wrote it."""
    return case.row(Rung.KERNEL) or case.at


def _alike(step: Step, top: Step) -> bool:
    """Whether a run fails at the same check as the compiled script, whatever numbers the check prints."""
    if step.verdict is Verdict.BAD:
        ours, theirs = step.outcome.raised, top.outcome.raised
        return ours is None or theirs is None or _line(ours) == _line(theirs)
    return False


def _line(raised: Raised) -> tuple[str, int]:
    """Returns file and line of the innermost frame outside torch."""
    own = [f for f in raised.frames if not f.file.startswith("torch/")]
    return (own[-1].file, own[-1].line) if own else ("", 0)


def _fails_by_a_check(case: Case) -> bool:
    """Whether the script's own check refused the compiled result; False if the compiler raised."""
    baseline, outcome = case.runner.baseline, _top(case).outcome
    if baseline.flaky or baseline.target is None or baseline.target.kind not in _OF_THE_SCRIPT:
        return False
    if case.start not in _STARTS or case.at.verdict is not Verdict.BAD or outcome.facts.get("caught"):
        return False
    return outcome.raised is None or not _of_compiler(outcome.raised)


def _of_compiler(raised: Raised) -> bool:
    inner = raised.frames[-1].file if raised.frames else ""
    return inner.startswith("torch/") and not inner.startswith("torch/testing/")


def _draws(outcome: Outcome) -> bool:
    return bool(outcome.facts.get("random"))


_STAGES = frozenset(
    {Stage.DECOMPOSITION, Stage.FX_PASSES, Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.KERNEL}
)

RANDOM_NUMBERS = Alternative(
    name=RANDOM,
    issue="pytorch#158643",  # "inconsistent outputs with models containing dropout"
    stages=_STAGES,
    moment=Moment.STAGE,
    applies=lambda case: _fails_by_a_check(case) and _draws(_top(case).outcome),
    ask=ask_random,
)

ROUNDINGS_OF_VALUES = Alternative(
    name=ROUNDING,
    issue="pytorch#185337",  # "keeps no fp16 rounding": kept by that setting only
    stages=_STAGES,
    moment=Moment.STAGE,
    applies=lambda case: _fails_by_a_check(case) and not _draws(_top(case).outcome),
    ask=ask_rounding,
)

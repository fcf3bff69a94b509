"""torch's own caches: a graph that was compiled for another state answers.

Failures seen only without instrumentation are run again with torch's caches on. A rung must see its part of
the compiler at work, so the caches are off otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.stages import Confidence, Rung, Stage
from accel_lab.core.torch_settings import AUTOGRAD_CACHE, GRAPH_CACHE
from accel_lab.core.verdict import Verdict
from accel_lab.search.bisection import Pair
from accel_lab.search.ladder_runner import LadderRunner
from accel_lab.search.premise import Baseline, same_failure
from accel_lab.search.proof import prove_again

#: The caches that may answer, the narrowest first, and what torch calls the setting (pytorch#184405).
_CACHES = (
    (("fx",), GRAPH_CACHE, "Inductor's cache of compiled graphs"),
    (("autograd", "fx"), AUTOGRAD_CACHE, "AOTAutograd's cache"),
)


@dataclass(kw_only=True)
class CacheSearch:
    """The cache that answered wrongly, if one did, the runs with caches on, and the pair that isolates it."""

    rows: list[Step] = field(default_factory=list)
    culprit: Culprit | None = None
    pair: Pair | None = None


def search(runner: LadderRunner, base: Baseline) -> CacheSearch:
    """Ask with the caches on, the narrowest first, until it fails as the plain run does."""
    plain, recorded = base.steps[0], base.steps[1:]
    result = CacheSearch()
    for number, (caches, setting, words) in enumerate(_CACHES, 1):
        row = runner.one(Rung.KERNEL, (("caches", list(caches)),), "caches")
        result.rows.append(replace(row, switch=setting, label=f"{words} on"))
        if not same_failure(plain.signature, row.signature):
            continue
        row = runner.repeat(row, 1, "caches")
        passing = [step for step in recorded if step.verdict is Verdict.GOOD]
        off, proof = prove_again(
            runner,
            row,
            runner.one(Rung.KERNEL, (), "caches"),
            runner.failing,
            comparisons=number,
            kind="caches",
            passed_elsewhere=len(passing),
        )
        passes = len(passing) + off.runs - off.failures
        result.pair = Pair(bad=(Rung.KERNEL, row.settings), good=(Rung.KERNEL, ()), without="caches off")
        result.culprit = Culprit(
            stage=Stage.RUNTIME,
            # The cache is known for sure; whose part of its key is missing is not.
            confidence=Confidence.LIKELY,
            component=Component(kind="cache", name=setting, detail=words, confidence=proof.confidence),
            evidence=(
                Evidence.of(
                    EvidenceKind.CACHE_FAILS,
                    passes=passes,
                    runs_off=len(passing) + off.runs,
                    cache=words,
                    failures=row.failures,
                    runs_on=row.runs,
                ),
            ),
        )
        break
    return result

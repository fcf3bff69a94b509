"""Finds the torch cache that returns a graph compiled for another state.

Failures seen only without instrumentation are run again with torch's caches on. Otherwise the caches are off,
because a rung has to see its part of the compiler run.
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

#: The caches that may be at fault, narrowest first, with torch's setting (pytorch#184405).
_CACHES = (
    (("fx",), GRAPH_CACHE, "Inductor's cache of compiled graphs"),
    (("autograd", "fx"), AUTOGRAD_CACHE, "AOTAutograd's cache"),
)


@dataclass(kw_only=True)
class CacheSearch:
    """The cache at fault, if any, the runs with caches on, and the pair that isolates it."""

    rows: list[Step] = field(default_factory=list)
    culprit: Culprit | None = None
    pair: Pair | None = None


def search(runner: LadderRunner, base: Baseline) -> CacheSearch:
    """Turns the caches on, narrowest first, until the run fails as the plain run does.

    No cache is at fault if that run fails with the caches off as well.
    """
    plain, recorded = base.steps[0], base.steps[1:]
    result = CacheSearch()
    for number, (caches, setting, words) in enumerate(_CACHES, 1):
        row = runner.one(Rung.KERNEL, (("caches", list(caches)),), "caches")
        result.rows.append(replace(row, switch=setting, label=f"{words} on"))
        if not same_failure(plain.signature, row.signature):
            continue
        without = runner.one(Rung.KERNEL, (), "caches")
        if same_failure(plain.signature, without.signature):
            break  # What hid the failure from the cold runs is something else (pytorch#183015).
        row = runner.repeat(row, 1, "caches")
        passing = [step for step in recorded if step.verdict is Verdict.GOOD]
        off, proof = prove_again(
            runner,
            row,
            without,
            runner.failing,
            comparisons=number,
            kind="caches",
            passed_elsewhere=len(passing),
        )
        passes = len(passing) + off.runs - off.failures
        result.pair = Pair(bad=(Rung.KERNEL, row.settings), good=(Rung.KERNEL, ()), without="caches off")
        result.culprit = Culprit(
            stage=Stage.RUNTIME,
            # The cache is certain; the component whose part of the cache key is missing is not.
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

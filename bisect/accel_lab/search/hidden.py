"""A failure that only the untouched script shows: what the lab changes in order to look at it hides it.

The caches are what it changes most: a rung must see its part of the compiler at work, so they are off. With
them on, the recorded run tells whether what they answered is the fault.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from accel_lab.core.findings import Component, Culprit, Step
from accel_lab.core.stages import Confidence, Rung, Stage

from .baseline import Baseline, same_failure
from .climb import Climber
from .searching import Pair

#: The caches that may answer, the narrowest first, and what torch calls the setting.
_CACHES = (
    (("fx",), "torch._inductor.config.fx_graph_cache", "Inductor's cache of compiled graphs"),
    (("autograd", "fx"), "torch._functorch.config.enable_autograd_cache", "AOTAutograd's cache"),
)


@dataclass(kw_only=True)
class Hidden:
    """The cache that answered wrongly, if one did, the runs with caches on, and the pair that told it."""

    rows: list[Step] = field(default_factory=list)
    culprit: Culprit | None = None
    pair: Pair | None = None


def look(climber: Climber, base: Baseline) -> Hidden:
    """Ask with the caches on, the narrowest first, until it fails as the plain run does."""
    plain, recorded = base.steps[0], base.steps[1:]
    found = Hidden()
    for caches, setting, words in _CACHES:
        row = climber.one(Rung.KERNEL, (("caches", list(caches)),), "caches")
        found.rows.append(replace(row, switch=setting, label=f"{words} on"))
        if not same_failure(plain.signature, row.signature):
            continue
        probe = replace(climber.probe, rung=Rung.KERNEL, switches=row.settings, attempt=1)
        again = climber.lab.submit(probe).result()
        sure = same_failure(plain.signature, climber.lab.signature(again))
        passed = sum(step.signature is None for step in recorded)
        found.pair = Pair(bad=(Rung.KERNEL, row.settings), good=(Rung.KERNEL, ()), without="caches off")
        found.culprit = Culprit(
            stage=Stage.RUNTIME,
            # The cache is known for sure; whose part of its key is missing is not.
            confidence=Confidence.LIKELY,
            component=Component(
                kind="cache",
                name=setting,
                detail=words,
                confidence=Confidence.PROVEN if sure else Confidence.LIKELY,
            ),
            evidence=(
                f"with the caches off it passed in {passed} of {passed} recorded runs, with {words} on it "
                f"fails as the plain run does{' (2 of 2 runs)' if sure else ''}: what was compiled for "
                "another state is used again",
            ),
        )
        break
    return found

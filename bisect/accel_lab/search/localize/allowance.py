"""The time budget of localization: a search with cold runs must end, too.

Warm, a question costs a few seconds and their number is the bound. Where each is a run in a fresh process, or
the script itself is slow, the same number would take far longer than the verdict did.
"""

from __future__ import annotations

import math

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.time_budget import Allowance
from accel_lab.search.premise import Baseline

#: So many plain runs may be spent, and a plain run counts for so many seconds at least: a script of a few
#: seconds is bounded by the number of its questions alone.
PLAIN_RUNS = 8
LEAST_PLAIN_S = 30.0
#: For all that follows the stage: the component and its proof, the cross-check, what is shown, other faults.
AFTER_STAGE_PLAIN_RUNS = 12


def allowance_of(base: Baseline, plain_runs: int = PLAIN_RUNS) -> Allowance:
    """What a search may spend on the script of this baseline: so many plain runs."""
    plain = max((step.outcome.seconds for step in base.steps[:2]), default=0.0)
    return Allowance(seconds=plain_runs * max(plain, LEAST_PLAIN_S))


def refusal(allowance: Allowance) -> Evidence:
    """What is noted where the search for the component ran out of time."""
    if math.isinf(allowance.seconds):
        return Evidence.of(EvidenceKind.SEARCH_OUT_OF_BUDGET)
    return Evidence.of(EvidenceKind.SEARCH_OUT_OF_ALLOWANCE, seconds=allowance.used, plain_runs=PLAIN_RUNS)

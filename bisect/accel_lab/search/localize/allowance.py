"""Limits the time of localization, for scripts whose runs are slow.

In a warm process a question costs a few seconds, so their number is the limit. With a fresh process for each,
or a slow script, the same number would take far longer than finding the stage.
"""

from __future__ import annotations

import math

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.time_budget import Allowance
from accel_lab.search.premise import Baseline

#: Maximum plain runs to spend. A plain run counts for at least ``LEAST_PLAIN_S`` seconds, so a short
#: script is limited only by the number of questions.
PLAIN_RUNS = 8
LEAST_PLAIN_S = 30.0
#: For everything after the stage: the component and its proof, cross-check, exhibits, other faults.
AFTER_STAGE_PLAIN_RUNS = 12


def allowance_of(base: Baseline, plain_runs: int = PLAIN_RUNS) -> Allowance:
    """Returns what a search may spend on this baseline's script: the time of that many plain runs."""
    plain = max((step.outcome.seconds for step in base.steps[:2]), default=0.0)
    return Allowance(seconds=plain_runs * max(plain, LEAST_PLAIN_S))


def refusal(allowance: Allowance) -> Evidence:
    """Returns the evidence that the search for the component ran out of time."""
    if math.isinf(allowance.seconds):
        return Evidence.of(EvidenceKind.SEARCH_OUT_OF_BUDGET)
    return Evidence.of(EvidenceKind.SEARCH_OUT_OF_ALLOWANCE, seconds=allowance.used, plain_runs=PLAIN_RUNS)

"""Reads a table of single replacements: which part of the accelerator is at fault.

Each replacement exchanges one part of the accelerator and leaves the rest unchanged. The smaller replacement
takes precedence: the reference front end also changes the transfers and the host calls, so a pass with only
the transfers replaced says more than a pass with that front end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Considered
from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Confidence, Stage
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import Switches
from accel_lab.search.proof import surest

from .accelerator import MOCK, Accelerator


class Replacement(str, Enum):
    """One row of the table: the accelerator unchanged, or with one part (``BOTH``: two) replaced."""

    MAIN = "main"
    BACK_END = "reference_back_end"
    FRONT_END = "reference_front_end"
    BOTH = "both_references"
    TRANSFER = "transfer_by_definition"
    HOST = "host_calls_apart"
    CACHE = "cache_off"
    SCRATCHPAD = "scratchpad_off"
    CORES = "one_core"
    POISON = "poison_off"

    def __str__(self) -> str:
        return self.value


#: The mock's options for a row; other accelerators know their parts by name.
SETTINGS: dict[Replacement, dict[str, Any]] = {
    Replacement.MAIN: {},
    Replacement.BACK_END: {"back_end": "reference"},
    Replacement.FRONT_END: {"front_end": "reference"},
    Replacement.BOTH: {"front_end": "reference", "back_end": "reference"},
    Replacement.TRANSFER: {"transfer": "definition"},
    Replacement.HOST: {"host": "apart"},
    Replacement.CACHE: {"cache": False},
    Replacement.SCRATCHPAD: {"scratchpad": False},
    Replacement.CORES: {"cores": 1},
    Replacement.POISON: {"poison": False},
}
LABELS: dict[Replacement, str] = {
    Replacement.MAIN: "front end and back end as they are",
    Replacement.BACK_END: "the same specs on the reference back end",
    Replacement.FRONT_END: "the reference front end, the same back end",
    Replacement.BOTH: "the reference front end on the reference back end",
    Replacement.TRANSFER: "reference transfers",
    Replacement.HOST: "host calls made outside the runtime",
    Replacement.CACHE: "no cache of kernels, nothing resident",
    Replacement.SCRATCHPAD: "no scratchpad",
    Replacement.CORES: "one core",
    Replacement.POISON: "padding not poisoned",
}
#: The combinations of the two ends, and the replacements of one part with both ends unchanged.
COMBINATIONS = (Replacement.BACK_END, Replacement.FRONT_END, Replacement.BOTH)
ABLATIONS = (
    Replacement.TRANSFER,
    Replacement.HOST,
    Replacement.CACHE,
    Replacement.SCRATCHPAD,
    Replacement.CORES,
    Replacement.POISON,
)

Table = Mapping[Replacement, Verdict]


def switches(row: Replacement, accelerator: Accelerator = MOCK) -> Switches:
    """Returns the probe's switches for a row."""
    if accelerator.is_mock:
        return accelerator.switches(options=SETTINGS[row])
    return accelerator.switches(part="" if row is Replacement.MAIN else row.value)


def offered(accelerator: Accelerator, outcome: Outcome) -> tuple[Replacement, ...]:
    """Returns the replaceable parts, as a run on the accelerator reports them; the mock has all."""
    if accelerator.is_mock:
        return (*COMBINATIONS, *ABLATIONS)
    names = set(accelerator.facts(outcome).get("parts") or ())
    return tuple(row for row in (*COMBINATIONS, *ABLATIONS) if row.value in names)


@dataclass(kw_only=True)
class Reading:
    """What a table says.

    ``passing_row`` is the row that lacks the culprit and must pass again as the proof. ``alternatives`` are
    what the other rows leave open. ``stage`` is None if no part could be singled out.
    """

    stage: Stage | None
    passing_row: Replacement | None = None
    part: tuple[str, str] | None = None
    evidence: list[Evidence] = field(default_factory=list)
    alternatives: list[Considered] = field(default_factory=list)

    def add_contradiction(
        self, why: Evidence, limit: Confidence = Confidence.LIKELY, name: str = "other_rows"
    ) -> None:
        """Notes a row that contradicts the answer."""
        self.alternatives.append(Considered(name=name, open=True, why=why, limit=limit))

    @property
    def contradictions(self) -> list[Evidence]:
        """The evidence that contradicts the answer."""
        return [alternative.why for alternative in self.alternatives if alternative.open]

    @property
    def limit(self) -> Confidence:
        """The highest confidence allowed; ``proven`` still needs the pair of runs."""
        return Confidence.INCONCLUSIVE if self.stage is None else surest(self.alternatives)


def read_table(table: Table, accelerator: Accelerator = MOCK) -> Reading:
    """Returns the part at fault for a table whose row ``MAIN`` is BAD; its stage is None if none is found."""
    good = {row for row, verdict in table.items() if verdict is Verdict.GOOD}
    reading = _first(table, good, accelerator)
    for oddity in _oddities(table, reading, accelerator):
        reading.add_contradiction(oddity)
    return reading


def _first(table: Table, good: set[Replacement], accelerator: Accelerator) -> Reading:
    if Replacement.TRANSFER in good:
        return _transfer(good, accelerator)
    if Replacement.BACK_END in good:
        return _back_end(table, good, accelerator)
    if Replacement.HOST in good:
        return _host(good, accelerator)
    if Replacement.FRONT_END in good:
        return _front_end(table, good, accelerator)
    if Replacement.BOTH in good:
        reading = Reading(stage=None)
        reading.add_contradiction(Evidence.of(EvidenceKind.ONLY_BOTH_REFERENCES_PASS))
        return reading
    if Replacement.CACHE in good:
        reading = Reading(
            stage=accelerator.front_end,
            passing_row=Replacement.CACHE,
            part=("cache", "kernel cache"),
            evidence=[Evidence.of(EvidenceKind.CACHES_FAIL)],
        )
        reading.add_contradiction(Evidence.of(EvidenceKind.CACHE_HAS_NO_REFERENCE), name="no_reference")
        return reading
    return Reading(stage=None)


def _transfer(good: set[Replacement], accelerator: Accelerator) -> Reading:
    reading = Reading(
        stage=accelerator.transfer,
        passing_row=Replacement.TRANSFER,
        evidence=[Evidence.of(EvidenceKind.TRANSFER_FAILS)],
    )
    if Replacement.BACK_END in good:
        reading.add_contradiction(Evidence.of(EvidenceKind.TRANSFER_OR_BACK_END))
    return reading


def _back_end(table: Table, good: set[Replacement], accelerator: Accelerator) -> Reading:
    reading = Reading(
        stage=accelerator.back_end,
        passing_row=Replacement.BACK_END,
        evidence=[Evidence.of(EvidenceKind.BACK_END_FAILS)],
    )
    if table.get(Replacement.FRONT_END) in (Verdict.BAD, Verdict.DIFFERENT):
        reading.evidence.append(Evidence.of(EvidenceKind.BACK_END_FAILS_OTHER_SPECS))
    elif Replacement.FRONT_END in good:
        reading.evidence.append(Evidence.of(EvidenceKind.OTHER_SPECS_MISS_FAULT))
    if table.get(Replacement.BOTH) in (Verdict.BAD, Verdict.DIFFERENT):
        reading.add_contradiction(
            Evidence.of(EvidenceKind.REFERENCE_FRONT_END_FAILS), Confidence.INCONCLUSIVE
        )
    return reading


def _host(good: set[Replacement], accelerator: Accelerator) -> Reading:
    """Reads a table in which only replacing the host calls passes."""
    declared = Replacement.FRONT_END in good
    reading = Reading(
        stage=accelerator.front_end if declared else accelerator.runtime,
        passing_row=Replacement.HOST,
        part=("host_call", "host fallback"),
        evidence=[Evidence.of(EvidenceKind.HOST_CALLS_FAIL)],
    )
    if declared:
        reading.evidence.append(Evidence.of(EvidenceKind.HOST_CALLS_DECLARED_WRONG))
    return reading


def _front_end(table: Table, good: set[Replacement], accelerator: Accelerator) -> Reading:
    reading = Reading(
        stage=accelerator.front_end,
        passing_row=Replacement.FRONT_END,
        evidence=[
            Evidence.of(EvidenceKind.FRONT_END_FAILS_ON_BOTH)
            if table.get(Replacement.BACK_END) is not Verdict.SKIP
            else Evidence.of(EvidenceKind.FRONT_END_FAILS_WHERE_REFERENCE_PASSES)
        ],
    )
    if Replacement.CACHE in good:
        reading.part = ("cache", "kernel cache")
        reading.evidence.append(Evidence.of(EvidenceKind.CACHE_REUSES_ARTIFACT))
    if Replacement.BOTH not in good:
        reading.evidence = [Evidence.of(EvidenceKind.FRONT_END_FAILS)]
        if table.get(Replacement.BOTH) is Verdict.SKIP:
            reading.add_contradiction(Evidence.of(EvidenceKind.REFERENCES_NOT_RUN_TOGETHER))
        else:
            reading.add_contradiction(
                Evidence.of(EvidenceKind.REFERENCE_FRONT_END_DISAGREES), Confidence.INCONCLUSIVE
            )
    return reading


def _oddities(table: Table, reading: Reading, accelerator: Accelerator) -> list[Evidence]:
    """Returns the rows that do not fit the answer: they fail in another way or could not be run."""
    found = []
    # Passing rows decide the stage, but a row that is wrong in another way is not the same failure.
    decisive = (Replacement.BACK_END,) if reading.stage is accelerator.front_end else COMBINATIONS
    other = [row for row in decisive if table.get(row) is Verdict.DIFFERENT]
    if (
        other
        and reading.stage in (None, accelerator.front_end)
        and reading.passing_row is not Replacement.HOST
    ):
        labels = [LABELS[row] for row in other]
        found.append(Evidence.of(EvidenceKind.PARTS_FAIL_DIFFERENTLY, parts=labels))
    missing = [row for row in COMBINATIONS if table.get(row, Verdict.SKIP) is Verdict.SKIP]
    if missing and reading.stage is not accelerator.transfer:
        found.append(Evidence.of(EvidenceKind.PARTS_NOT_RUN, parts=[LABELS[row] for row in missing]))
    return found

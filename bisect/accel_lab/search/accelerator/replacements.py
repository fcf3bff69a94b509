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


class Ask(str, Enum):
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
SETTINGS: dict[Ask, dict[str, Any]] = {
    Ask.MAIN: {},
    Ask.BACK_END: {"back_end": "reference"},
    Ask.FRONT_END: {"front_end": "reference"},
    Ask.BOTH: {"front_end": "reference", "back_end": "reference"},
    Ask.TRANSFER: {"transfer": "definition"},
    Ask.HOST: {"host": "apart"},
    Ask.CACHE: {"cache": False},
    Ask.SCRATCHPAD: {"scratchpad": False},
    Ask.CORES: {"cores": 1},
    Ask.POISON: {"poison": False},
}
LABELS: dict[Ask, str] = {
    Ask.MAIN: "front end and back end as they are",
    Ask.BACK_END: "the same specs on the reference back end",
    Ask.FRONT_END: "the reference front end, the same back end",
    Ask.BOTH: "the reference front end on the reference back end",
    Ask.TRANSFER: "reference transfers",
    Ask.HOST: "host calls made outside the runtime",
    Ask.CACHE: "no cache of kernels, nothing resident",
    Ask.SCRATCHPAD: "no scratchpad",
    Ask.CORES: "one core",
    Ask.POISON: "padding not poisoned",
}
#: The combinations of the two ends, and the replacements of one part with both ends unchanged.
COMBINATIONS = (Ask.BACK_END, Ask.FRONT_END, Ask.BOTH)
ABLATIONS = (Ask.TRANSFER, Ask.HOST, Ask.CACHE, Ask.SCRATCHPAD, Ask.CORES, Ask.POISON)

Table = Mapping[Ask, Verdict]


def switches(ask: Ask, accelerator: Accelerator = MOCK) -> Switches:
    """Returns the probe's switches for a row."""
    if accelerator.is_mock:
        return accelerator.switches(options=SETTINGS[ask])
    return accelerator.switches(part="" if ask is Ask.MAIN else ask.value)


def offered(accelerator: Accelerator, outcome: Outcome) -> tuple[Ask, ...]:
    """Returns the replaceable parts, as a run on the accelerator reports them; the mock has all."""
    if accelerator.is_mock:
        return (*COMBINATIONS, *ABLATIONS)
    names = set(accelerator.facts(outcome).get("parts") or ())
    return tuple(ask for ask in (*COMBINATIONS, *ABLATIONS) if ask.value in names)


@dataclass(kw_only=True)
class Reading:
    """What a table says.

    ``out`` is the row that lacks the culprit and must pass again as the proof. ``alternatives`` are what the
    other rows leave open. ``stage`` is None if no part could be singled out.
    """

    stage: Stage | None
    out: Ask | None = None
    part: tuple[str, str] | None = None
    evidence: list[Evidence] = field(default_factory=list)
    alternatives: list[Considered] = field(default_factory=list)

    def contest(self, why: Evidence, limit: Confidence = Confidence.LIKELY, name: str = "other_rows") -> None:
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
    good = {ask for ask, verdict in table.items() if verdict is Verdict.GOOD}
    reading = _first(table, good, accelerator)
    for oddity in _oddities(table, reading, accelerator):
        reading.contest(oddity)
    return reading


def _first(table: Table, good: set[Ask], accelerator: Accelerator) -> Reading:
    if Ask.TRANSFER in good:
        return _transfer(good, accelerator)
    if Ask.BACK_END in good:
        return _back_end(table, good, accelerator)
    if Ask.HOST in good:
        return _host(good, accelerator)
    if Ask.FRONT_END in good:
        return _front_end(table, good, accelerator)
    if Ask.BOTH in good:
        reading = Reading(stage=None)
        reading.contest(Evidence.of(EvidenceKind.ONLY_BOTH_REFERENCES_PASS))
        return reading
    if Ask.CACHE in good:
        reading = Reading(
            stage=accelerator.front_end,
            out=Ask.CACHE,
            part=("cache", "kernel cache"),
            evidence=[Evidence.of(EvidenceKind.CACHES_FAIL)],
        )
        reading.contest(Evidence.of(EvidenceKind.CACHE_HAS_NO_REFERENCE), name="no_reference")
        return reading
    return Reading(stage=None)


def _transfer(good: set[Ask], accelerator: Accelerator) -> Reading:
    reading = Reading(
        stage=accelerator.transfer,
        out=Ask.TRANSFER,
        evidence=[Evidence.of(EvidenceKind.TRANSFER_FAILS)],
    )
    if Ask.BACK_END in good:
        reading.contest(Evidence.of(EvidenceKind.TRANSFER_OR_BACK_END))
    return reading


def _back_end(table: Table, good: set[Ask], accelerator: Accelerator) -> Reading:
    reading = Reading(
        stage=accelerator.back_end,
        out=Ask.BACK_END,
        evidence=[Evidence.of(EvidenceKind.BACK_END_FAILS)],
    )
    if table.get(Ask.FRONT_END) in (Verdict.BAD, Verdict.DIFFERENT):
        reading.evidence.append(Evidence.of(EvidenceKind.BACK_END_FAILS_OTHER_SPECS))
    elif Ask.FRONT_END in good:
        reading.evidence.append(Evidence.of(EvidenceKind.OTHER_SPECS_MISS_FAULT))
    if table.get(Ask.BOTH) in (Verdict.BAD, Verdict.DIFFERENT):
        reading.contest(Evidence.of(EvidenceKind.REFERENCE_FRONT_END_FAILS), Confidence.INCONCLUSIVE)
    return reading


def _host(good: set[Ask], accelerator: Accelerator) -> Reading:
    """Reads a table in which only replacing the host calls passes."""
    declared = Ask.FRONT_END in good
    reading = Reading(
        stage=accelerator.front_end if declared else accelerator.runtime,
        out=Ask.HOST,
        part=("host_call", "host fallback"),
        evidence=[Evidence.of(EvidenceKind.HOST_CALLS_FAIL)],
    )
    if declared:
        reading.evidence.append(Evidence.of(EvidenceKind.HOST_CALLS_DECLARED_WRONG))
    return reading


def _front_end(table: Table, good: set[Ask], accelerator: Accelerator) -> Reading:
    reading = Reading(
        stage=accelerator.front_end,
        out=Ask.FRONT_END,
        evidence=[
            Evidence.of(EvidenceKind.FRONT_END_FAILS_ON_BOTH)
            if table.get(Ask.BACK_END) is not Verdict.SKIP
            else Evidence.of(EvidenceKind.FRONT_END_FAILS_WHERE_REFERENCE_PASSES)
        ],
    )
    if Ask.CACHE in good:
        reading.part = ("cache", "kernel cache")
        reading.evidence.append(Evidence.of(EvidenceKind.CACHE_REUSES_ARTIFACT))
    if Ask.BOTH not in good:
        reading.evidence = [Evidence.of(EvidenceKind.FRONT_END_FAILS)]
        if table.get(Ask.BOTH) is Verdict.SKIP:
            reading.contest(Evidence.of(EvidenceKind.REFERENCES_NOT_RUN_TOGETHER))
        else:
            reading.contest(Evidence.of(EvidenceKind.REFERENCE_FRONT_END_DISAGREES), Confidence.INCONCLUSIVE)
    return reading


def _oddities(table: Table, reading: Reading, accelerator: Accelerator) -> list[Evidence]:
    """Returns the rows that do not fit the answer: they fail in another way or could not be run."""
    found = []
    # Passing rows decide the stage, but a row that is wrong in another way is not the same failure.
    decisive = (Ask.BACK_END,) if reading.stage is accelerator.front_end else COMBINATIONS
    other = [ask for ask in decisive if table.get(ask) is Verdict.DIFFERENT]
    if other and reading.stage in (None, accelerator.front_end) and reading.out is not Ask.HOST:
        labels = [LABELS[ask] for ask in other]
        found.append(Evidence.of(EvidenceKind.PARTS_FAIL_DIFFERENTLY, parts=labels))
    missing = [ask for ask in COMBINATIONS if table.get(ask, Verdict.SKIP) is Verdict.SKIP]
    if missing and reading.stage is not accelerator.transfer:
        found.append(Evidence.of(EvidenceKind.PARTS_NOT_RUN, parts=[LABELS[ask] for ask in missing]))
    return found

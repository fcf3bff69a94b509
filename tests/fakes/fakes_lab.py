"""A lab without processes: a program whose fault sits at a chosen rung, raises or returns wrong numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.errors import OutOfTime
from accel_lab.core.findings import Agreement, Findings
from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Probe, Program
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.time_budget import TimeBudget
from accel_lab.numerics.records import Difference, same_difference
from accel_lab.numerics.values import Comparison
from accel_lab.search.diagnosis import Diagnosis, Options

ORDER = [
    Rung.UNCOMPILED,
    Rung.DYNAMO,
    Rung.AOT,
    Rung.META,
    Rung.PARTITION,
    Rung.DECOMP,
    Rung.FX,
    Rung.LOOPS,
    Rung.SCHEDULED,
    Rung.KERNEL,
]

#: A program that nobody runs.
PROBE = Probe(program=Program(path="/x/script.py", sha256="0"))

#: The stage that is at fault where a failure starts at a rung.
STAGES = {
    Rung.DYNAMO: Stage.DYNAMO,
    Rung.AOT: Stage.AOT_AUTOGRAD,
    Rung.PARTITION: Stage.PARTITIONER,
    Rung.DECOMP: Stage.DECOMPOSITION,
    Rung.FX: Stage.FX_PASSES,
    Rung.LOOPS: Stage.LOWERING,
    Rung.SCHEDULED: Stage.SCHEDULER,
    Rung.KERNEL: Stage.CODEGEN,
}


def diagnose(lab: FakeLab, **options: object) -> Findings:
    """The whole search on a lab without processes."""
    return Diagnosis(lab, PROBE, Options(**options)).run()  # type: ignore[arg-type]


def failing(message: str = "boom", kind: str = "ValueError", **changes: Any) -> Outcome:
    """An outcome that ended with an exception."""
    return Outcome(status=Status.EXCEPTION, exit_code=1, raised=Raised(type=kind, message=message), **changes)


def passing(**changes: Any) -> Outcome:
    return Outcome(status=Status.OK, exit_code=0, **changes)


@dataclass
class FakeLab:
    """``fault`` is the rung that brings the fault in; ``cures`` decides for a probe that it passes."""

    fault: Rung | None = Rung.FX
    rate: float = 1.0
    seed: int = 0
    cures: Callable[[Probe], bool] = lambda probe: False
    answer: Callable[[Probe], Outcome | None] = lambda probe: None
    asked: list[Probe] = field(default_factory=list)
    warm: bool = False
    checked: bool = False
    numbers_fixed: bool = False
    eager_off: bool = False
    compiler: tuple[bool, str] = (True, "g++")
    time_budget: TimeBudget = field(default_factory=TimeBudget)
    now: float = 0.0
    facts: dict[str, Any] = field(
        default_factory=lambda: {"regions": [{"id": 0, "name": "f", "backend": "inductor"}], "applied": {}}
    )

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.time_budget.clock = lambda: self.now

    @property
    def is_warm(self) -> bool:
        return self.warm

    def warm_up(self) -> None:
        self.warm = True

    def go_cold(self) -> None:
        self.warm = False

    def use_fixed_seed(self) -> None:
        self.numbers_fixed = True

    def check_heap(self, on: bool) -> None:
        self.checked = on

    def submit(self, probe: Probe) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        end = self.time_budget.end
        if end is not None and self.now >= end:
            future.set_exception(OutOfTime("the time was up"))
            return future
        self.asked.append(probe)
        outcome = self._outcome(probe)
        self.now += outcome.seconds
        future.set_result(outcome)
        return future

    def _outcome(self, probe: Probe) -> Outcome:
        warm = self.warm and not probe.cold and not probe.bare
        given = self.answer(probe)
        if given is not None:
            return given
        common: dict[str, Any] = {
            "warm": warm,
            "seconds": 0.1,
            "facts": {} if probe.bare else dict(self.facts),
        }
        if self.fault is None or ORDER.index(probe.rung) < ORDER.index(self.fault) or self.cures(probe):
            return passing(**common)
        if self._random.random() >= self.rate:
            return passing(**common)
        return failing(**common)

    def signature(self, outcome: Outcome) -> Signature | None:
        return signature_of(outcome)

    def oracle_undecided(self, outcome: Outcome) -> bool:
        return False

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        return []

    def eager_is_off(self, got: Outcome, reference: Outcome) -> bool:
        return self.eager_off

    def agreement(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> Agreement | None:
        return None if self.differences(got, want, reference) else Agreement(types=())

    def same_differences(self, one: Sequence[Any], two: Sequence[Any]) -> bool:
        return bool(one) == bool(two)

    def compiler_works(self) -> tuple[bool, str]:
        return self.compiler

    @property
    def warm_probes(self) -> list[Probe]:
        """Those that the warm server would have answered."""
        return [p for p in self.asked if not p.cold and not p.bare]


#: Where a fake region's value is recorded: an output unless the test says otherwise.
OUTPUT = ("output", "0")


@dataclass(frozen=True, kw_only=True)
class Values:
    """One recorded value of a region: float64's, eager's, a compiled one's, and one that a fault has made.

    ``draws`` is what the compiled code draws in its place unless ``fallback_random`` is on, ``seeded`` what
    uncompiled code draws from another seed (default: the same as ``draws``).
    """

    exact: float = 1.0
    eager: float = 1.0
    compiled: float = 1.0
    wrong: float = 2.0
    draws: float | None = None
    seeded: float | None = None
    place: tuple[str, str] = OUTPUT


@dataclass
class SilentLab(FakeLab):
    """A program that ends well; its compiled regions return ``values``, wrong from the rung ``fault`` on.

    ``faults`` are the rungs of single regions, by their id; a region that is held on a rung by the ``hold``
    switch returns what it does there. ``reference`` says whether the float64 run ends well.
    """

    values: dict[int, Values] = field(default_factory=lambda: {0: Values()})
    faults: dict[int, Rung] = field(default_factory=dict)
    reference: bool = True
    compared: list[tuple[bool, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [{"id": region, "name": f"f{region}", "backend": "inductor"} for region in self.values]
        self.facts = {"random": False, **self.facts, "regions": names}

    def _outcome(self, probe: Probe) -> Outcome:
        given = self.answer(probe)
        if given is not None:
            return given
        settings = dict(probe.switches)
        if settings.get("shadow") and not self.reference:
            return failing("float64 needs more memory", "MemoryError")
        warm = self.warm and not probe.cold and not probe.bare
        facts = {} if probe.bare else {**self.facts, "recorded": self._recorded(probe)}
        return passing(warm=warm, seconds=0.1, facts=facts)

    def _recorded(self, probe: Probe) -> dict[int, tuple[float, float | None]]:
        """Each region's value, and the float64 one beside it where the run has that."""
        settings = dict(probe.switches)
        held = {int(region): Rung(rung) for region, rung in (settings.get("hold") or {}).items()}
        aligned = bool((settings.get("inductor") or {}).get("fallback_random"))
        fires = self._random.random() < self.rate
        found: dict[int, tuple[float, float | None]] = {}
        for region, values in self.values.items():
            rung = min(probe.rung, held.get(region, probe.rung), key=ORDER.index)
            fault = self.faults.get(region, self.fault)
            at_fault = fault is not None and ORDER.index(rung) >= ORDER.index(fault)
            value = values.eager if rung is Rung.UNCOMPILED else values.compiled
            if at_fault and fires and not self.cures(probe):
                value = values.wrong
            elif values.draws is not None and rung is Rung.KERNEL and not aligned:
                value = values.draws
            elif rung is Rung.UNCOMPILED and settings.get("other_random") and values.draws is not None:
                value = values.draws if values.seeded is None else values.seeded
            found[region] = (value, values.exact if settings.get("shadow") else None)
        return found

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        """Without float64 any difference counts, with it what is twice as far off as eager is."""
        ours = got.facts.get("recorded") or {}
        theirs = (reference or want).facts.get("recorded") or {}
        self.compared.append((reference is not None, bool(ours and theirs)))
        found = []
        for region in sorted(set(ours) & set(theirs)):
            (value, _), (eager, exact) = ours[region], theirs[region]
            differs = value != eager if exact is None else abs(value - exact) > 2 * abs(eager - exact)
            if differs:
                found.append(self._difference(region, abs(value - eager)))
        return found

    def _difference(self, region: int, error: float) -> Difference:
        phase, path = self.values[region].place
        comparison = Comparison(same=False, reason="values", max_abs_error=error, detail=f"off by {error:g}")
        return Difference(
            region=f"f{region}#0", name=f"f{region}", call=0, phase=phase, path=path, comparison=comparison
        )

    def same_differences(self, one: Sequence[Any], two: Sequence[Any]) -> bool:
        return same_difference(list(one), list(two))

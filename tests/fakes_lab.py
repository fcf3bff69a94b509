"""A lab without processes: a program whose fault sits at a chosen rung and fires at a chosen rate."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.judge import signature_of
from accel_lab.core.outcome import Outcome, Raised, Status
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.stages import Rung

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
    compiler: tuple[bool, str] = (True, "g++")
    facts: dict[str, Any] = field(
        default_factory=lambda: {"regions": [{"id": 0, "name": "f", "backend": "inductor"}], "applied": {}}
    )

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @property
    def is_warm(self) -> bool:
        return self.warm

    def warm_up(self) -> None:
        self.warm = True

    def go_cold(self) -> None:
        self.warm = False

    def check_heap(self, on: bool) -> None:
        self.checked = on

    def submit(self, probe: Probe) -> Future[Outcome]:
        self.asked.append(probe)
        future: Future[Outcome] = Future()
        future.set_result(self._outcome(probe))
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

    def cannot_tell(self, outcome: Outcome) -> bool:
        return False

    def differences(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> list[Any]:
        return []

    def same_differences(self, one: Sequence[Any], two: Sequence[Any]) -> bool:
        return bool(one) == bool(two)

    def compiler_works(self) -> tuple[bool, str]:
        return self.compiler

    @property
    def warm_probes(self) -> list[Probe]:
        """Those that the warm server would have answered."""
        return [p for p in self.asked if not p.cold and not p.bare]

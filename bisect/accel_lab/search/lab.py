"""The interface between a search and the lab; tests replace it by a fake."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from accel_lab.core.findings import Agreement
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe
from accel_lab.core.signature import Signature
from accel_lab.core.time_budget import TimeBudget


class Compared(Protocol):
    """How two recorded values compare (``numerics.comparison.Comparison``)."""

    @property
    def reason(self) -> str: ...
    @property
    def max_abs_error(self) -> float | None: ...
    @property
    def detail(self) -> str: ...


class Difference(Protocol):
    """A recorded value that differs between two runs (``numerics.records.Difference``)."""

    @property
    def region(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def call(self) -> int: ...
    @property
    def phase(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def place(self) -> tuple[str, int, str, str]: ...
    @property
    def line(self) -> str: ...
    @property
    def comparison(self) -> Compared: ...


class Lab(Protocol):
    """Answers probes and compares what they recorded."""

    @property
    def is_warm(self) -> bool: ...

    @property
    def time_budget(self) -> TimeBudget:
        """The time that is left; a probe that would start after its end raises ``OutOfTime``."""

    def submit(self, probe: Probe) -> Future[Outcome]: ...

    def warm_up(self) -> None: ...

    def go_cold(self) -> None: ...

    def use_fixed_seed(self) -> None:
        """Makes later repeats draw the first run's random numbers, unless the script seeds.

        Values can be compared with one uncompiled run only if each run computes from the same inputs.
        """

    def check_heap(self, on: bool) -> None:
        """Sets whether the allocator checks each freed block, in all later runs but plain ones."""

    def signature(self, outcome: Outcome) -> Signature | None:
        """Returns the failure that the outcome shows under the user's oracle; None for none."""

    def oracle_undecided(self, outcome: Outcome) -> bool:
        """Whether the user's oracle refused to judge the outcome (``--check`` ended with 125)."""

    def differences(
        self, got: Outcome, want: Outcome, reference: Outcome | None = None
    ) -> Sequence[Difference]:
        """Returns recorded values of ``got`` that are further off than ``want``'s own rounding explains."""

    def eager_is_off(self, got: Outcome, reference: Outcome) -> bool:
        """Whether an uncompiled value is further from float64 than the error of ``got`` explains."""

    def agreement(self, got: Outcome, want: Outcome, reference: Outcome | None = None) -> Agreement | None:
        """Returns how close the recorded values are; None if they may differ.

        Without a reference the check is strict: None means that the float64 run has to decide.
        """

    def same_differences(self, one: Sequence[Difference], two: Sequence[Difference]) -> bool:
        """Whether both sets show the same fault: same places, same kind, same size of error."""

    def compiler_works(self) -> tuple[bool, str]:
        """Returns whether Inductor's C++ compiler can build a small library, and the compiler's message."""

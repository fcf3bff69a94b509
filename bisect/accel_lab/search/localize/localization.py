"""What a search inside a stage hands back: the component, and the run that speaks for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.core.findings import Component, Considered, Exhibit, Step
from accel_lab.core.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A component that may be at fault.

    ``cure`` is the run in which it alone was left out and which passed, where there is one: only such a
    component can be proven (``proof.prove_component``).
    """

    component: Component
    passing_run: Step | None = None


@dataclass(kw_only=True)
class Localization:
    """What was found inside a stage: the component, the evidence in words, things to look at.

    ``cure`` is the run in which the component alone was left out and which passed, if there is one. ``stage``
    is another stage than the one that was searched, where what was found belongs there. ``changes`` are the
    graphs before and after the component, each as its lines. ``alternatives`` are explanations that the
    search met and could not rule out.
    """

    component: Component | None = None
    passing_run: Step | None = None
    evidence: list[str] = field(default_factory=list)
    exhibits: list[Exhibit] = field(default_factory=list)
    stage: Stage | None = None
    changes: list[tuple[list[str], list[str]]] = field(default_factory=list)
    alternatives: list[Considered] = field(default_factory=list)

    def take(self, candidate: Candidate | None) -> None:
        """Make a candidate the answer."""
        self.component = candidate.component if candidate is not None else None
        self.passing_run = candidate.passing_run if candidate is not None else None

    @property
    def candidate(self) -> Candidate | None:
        """The answer with the run that speaks for it."""
        return (
            None
            if self.component is None
            else Candidate(component=self.component, passing_run=self.passing_run)
        )

"""Result of localizing a fault within one stage."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import Component, Considered, Exhibit, Step
from accel_lab.core.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A component that may be at fault.

    ``passing_run`` is the run that passes with only this component left out, if there is one. Only such a
    component can be proven (``proof.prove_component``).
    """

    component: Component
    passing_run: Step | None = None


@dataclass(kw_only=True)
class Localization:
    """The component within a stage, with evidence and exhibits.

    ``passing_run`` is the run that passes with only the component left out, if there is one. ``stage`` is set
    if the component belongs to another stage than the searched one. ``changes`` are the graphs before and
    after the component, each as its lines. ``alternatives`` are explanations that the search could not rule
    out.
    """

    component: Component | None = None
    passing_run: Step | None = None
    evidence: list[Evidence] = field(default_factory=list)
    exhibits: list[Exhibit] = field(default_factory=list)
    stage: Stage | None = None
    changes: list[tuple[list[str], list[str]]] = field(default_factory=list)
    alternatives: list[Considered] = field(default_factory=list)

    def take(self, candidate: Candidate | None) -> None:
        """Makes a candidate the result; None clears it."""
        self.component = candidate.component if candidate is not None else None
        self.passing_run = candidate.passing_run if candidate is not None else None

    @property
    def candidate(self) -> Candidate | None:
        """The component with its passing run, or None."""
        return (
            None
            if self.component is None
            else Candidate(component=self.component, passing_run=self.passing_run)
        )

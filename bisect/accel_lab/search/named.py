"""What a search inside a stage hands back."""

from __future__ import annotations

from dataclasses import dataclass, field

from accel_lab.core.findings import Component, Exhibit
from accel_lab.core.stages import Stage


@dataclass(kw_only=True)
class Named:
    """What was found inside a stage: the component, the evidence in words, things to look at.

    ``stage`` is another stage than the one that was searched, where what was found belongs there.
    ``contested`` says that what was found may keep a contract that another stage breaks, so that no pair of
    runs proves the stage.
    """

    component: Component | None = None
    evidence: list[str] = field(default_factory=list)
    exhibits: list[Exhibit] = field(default_factory=list)
    stage: Stage | None = None
    contested: bool = False

"""Maps an accelerator to its rung, its probe switches and the stages of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accel_lab.core.outcome import Outcome
from accel_lab.core.stages import Rung, Stage
from accel_lab.search.ladder_runner import Switches

BACK_ENDS = frozenset({Stage.MOCK_BACK_END, Stage.ACCELERATOR_BACK_END})
FRONT_ENDS = frozenset({Stage.MOCK_FRONT_END, Stage.ACCELERATOR_FRONT_END})


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """One accelerator, identified by the name of its adapter.

    ``runtime`` is the stage that calls host fallbacks; ``whole`` the stage blamed when no part can be singled
    out.
    """

    name: str
    rung: Rung = Rung.ACCELERATOR
    front_end: Stage = Stage.ACCELERATOR_FRONT_END
    back_end: Stage = Stage.ACCELERATOR_BACK_END
    transfer: Stage = Stage.ACCELERATOR_TRANSFER
    runtime: Stage = Stage.ACCELERATOR
    whole: Stage = Stage.ACCELERATOR

    @property
    def is_mock(self) -> bool:
        """Whether it is the lab's mock accelerator, which has its own rung and switch."""
        return self.rung is Rung.MOCK

    def switches(
        self,
        way: str = "",
        *,
        part: str = "",
        options: Mapping[str, Any] | None = None,
        files: bool = False,
    ) -> Switches:
        """Returns the probe's switches for one of the accelerator's rungs, optionally with one part replaced.

        ``options`` are passed to the adapter. With ``files`` the run writes the files that explain it.
        """
        kept = {"files": True} if files else {}
        if self.is_mock:
            return (("mock", {"front_end": "main", "back_end": "main", **(options or {}), **kept}),)
        given: dict[str, Any] = {"name": self.name, "way": way, **kept}
        given.update({"part": part} if part else {})
        given.update({"options": dict(options)} if options else {})
        return (("adapter", given),)

    def facts(self, outcome: Outcome) -> dict[str, Any]:
        """Returns what the run recorded about the accelerator, or an empty dict."""
        return (outcome.facts.get("mock") if self.is_mock else outcome.facts.get("accelerator")) or {}


MOCK = Accelerator(
    name="mock",
    rung=Rung.MOCK,
    front_end=Stage.MOCK_FRONT_END,
    back_end=Stage.MOCK_BACK_END,
    transfer=Stage.MOCK_TRANSFER,
    runtime=Stage.MOCK_RUNTIME,
    whole=Stage.MOCK_BACK_END,
)


def accelerator_named(name: str) -> Accelerator:
    """Returns the accelerator whose adapter has this name."""
    return MOCK if name == MOCK.name else Accelerator(name=name)

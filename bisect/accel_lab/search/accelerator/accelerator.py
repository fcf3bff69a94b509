"""How one accelerator is asked: its rung, its switches, and which stages its parts are."""

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
    """One accelerator, by the name of its adapter.

    ``runtime`` is what calls the host; ``whole`` the stage where its parts are not distinguished.
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
        """Whether it is the lab's own, which has a rung and a switch of its own."""
        return self.rung is Rung.MOCK

    def switches(
        self,
        way: str = "",
        *,
        part: str = "",
        options: Mapping[str, Any] | None = None,
        files: bool = False,
    ) -> Switches:
        """The probe's switches: one of its rungs, with one part replaced, with options of the adapter.

        ``files``: the run leaves the files that explain it.
        """
        kept = {"files": True} if files else {}
        if self.is_mock:
            return (("mock", {"front_end": "main", "back_end": "main", **(options or {}), **kept}),)
        given: dict[str, Any] = {"name": self.name, "way": way, **kept}
        given.update({"part": part} if part else {})
        given.update({"options": dict(options)} if options else {})
        return (("adapter", given),)

    def facts(self, outcome: Outcome) -> dict[str, Any]:
        """What a run on it recorded of it."""
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


def accelerator_called(name: str) -> Accelerator:
    """The accelerator of that name."""
    return MOCK if name == MOCK.name else Accelerator(name=name)

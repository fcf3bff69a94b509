"""The record, in the findings, of the accelerator settings that a run depended on; a bundle restores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The key in ``Findings.environment``.
KEY = "accelerator"


@dataclass(frozen=True, kw_only=True)
class AcceleratorRecord:
    """One accelerator and its environment.

    ``name`` is that of its adapter. ``variables`` has each variable that the adapter names, None if it was
    not set. ``package``, ``version`` and ``commit`` are those of the adapter's package; ``commit`` is empty
    if the installation does not record it. ``faults`` were seeded on purpose.
    """

    name: str
    variables: Mapping[str, str | None]
    package: str = ""
    version: str = ""
    commit: str = ""
    faults: tuple[str, ...] = ()

    @classmethod
    def of_facts(cls, name: str, facts: Mapping[str, Any]) -> AcceleratorRecord | None:
        """Reads the record from a run's facts; None if the run compiled nothing or came from an older lab."""
        found = facts.get("environment")
        if not found:
            return None
        return cls.from_json({**found, "name": name, "faults": facts.get("faults") or ()})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AcceleratorRecord:
        """Reads what :meth:`to_json` wrote."""
        return cls(
            name=str(data["name"]),
            variables={
                str(name): None if value is None else str(value) for name, value in data["variables"].items()
            },
            package=str(data.get("package") or ""),
            version=str(data.get("version") or ""),
            commit=str(data.get("commit") or ""),
            faults=tuple(str(fault) for fault in data.get("faults") or ()),
        )

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**vars(self), "variables": dict(self.variables), "faults": list(self.faults)}

    @property
    def settings(self) -> dict[str, str]:
        """The variables that were set; setting them in another process reproduces this accelerator."""
        return {name: value for name, value in self.variables.items() if value is not None}

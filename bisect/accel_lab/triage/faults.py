"""Groups results into distinct faults, and compares a triage with an earlier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .jobs import Fault, Result


@dataclass(frozen=True, kw_only=True)
class FaultGroup:
    """One fault with its scripts, the one with the smallest repro first."""

    fault: Fault
    members: tuple[Result, ...]

    @property
    def id(self) -> str:
        """Identifies the fault across triages, as long as the smallest identity among its members stays."""
        return min(member.fault.identity for member in self.members if member.fault is not None)

    @property
    def smallest(self) -> Result:
        return self.members[0]

    def to_json(self) -> dict[str, Any]:
        one = self.smallest
        return {
            "id": self.id,
            "stage": self.fault.stage,
            "component": self.fault.component,
            "signature": self.fault.signature,
            "flips": list(self.fault.flips),
            "confidence": one.confidence,
            "smallest": one.repro or one.script.path,
            "lines": one.lines,
            "bundle": one.bundle,
            "members": [member.script.name for member in self.members],
        }


def group(results: Sequence[Result]) -> list[FaultGroup]:
    """Groups the failing results into distinct faults, largest group first.

    Two results belong to one fault if stage, component, signature and flips agree, or if their smallest
    graphs are equal.
    """
    failing = [result for result in results if result.fault is not None]
    parent = list(range(len(failing)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    seen: dict[str, int] = {}
    for place, result in enumerate(failing):
        assert result.fault is not None
        for mark in filter(
            None, (result.fault.identity, result.fault.graph and f"graph {result.fault.graph}")
        ):
            if mark in seen:
                parent[root(place)] = root(seen[mark])
            else:
                seen[mark] = place
    groups: dict[int, list[Result]] = {}
    for place, result in enumerate(failing):
        groups.setdefault(root(place), []).append(result)
    made = [_group(members) for members in groups.values()]
    return sorted(made, key=lambda one: (-len(one.members), one.fault.stage, one.id))


def _group(members: Sequence[Result]) -> FaultGroup:
    ordered = sorted(members, key=_size)
    fault = ordered[0].fault
    assert fault is not None
    return FaultGroup(fault=fault, members=tuple(ordered))


def _size(result: Result) -> tuple[bool, int, str]:
    """Sort key: verified repros first, by number of lines, then by name."""
    return (result.lines is None, result.lines or 0, result.script.name)


def changes(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is new, gone and changed since an earlier triage, by script names and fault ids."""
    then, today = _standing(before), _standing(now)
    known, found = ({fault["id"]: _named(fault) for fault in one["faults"]} for one in (before, now))
    return {
        "since": before["time"],
        "new_scripts": sorted(set(today) - set(then)),
        "gone_scripts": sorted(set(then) - set(today)),
        "changed_scripts": [
            {"script": name, "before": then[name][0], "now": today[name][0]}
            for name in sorted(set(today) & set(then))
            if today[name] != then[name]
        ],
        "new_faults": [found[one] for one in sorted(set(found) - set(known))],
        "gone_faults": [known[one] for one in sorted(set(known) - set(found))],
    }


def _named(fault: Mapping[str, Any]) -> dict[str, str]:
    """Returns the fields that identify a fault to the user."""
    return {name: str(fault.get(name) or "") for name in ("id", "stage", "component")}


def _standing(triage: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Maps each script to its verdict and the id of its fault."""
    faults = {name: fault["id"] for fault in triage["faults"] for name in fault["members"]}
    return {row["script"]: (str(row["verdict"]), faults.get(row["script"], "")) for row in triage["scripts"]}

"""Reads the loop interpreter's findings on loops whose result depends on the order of iterations.

An interpreter runs one of many legal orders, so passing loops prove the loop IR right only if no order
changes their result. An iteration that reads what another one writes is a fault of the loop's maker. So are
two iterations that write one element, except if the operator writes through an index tensor: there torch
leaves undefined which value stays, so it is an open question and no fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.evidence import Evidence, EvidenceKind
from accel_lab.core.findings import Component, Considered, Step
from accel_lab.core.stages import Stage

#: Name of the alternative that a conflict leaves open, and of the fact that a run reports.
NAME = "order_of_iterations"


@dataclass(frozen=True, kw_only=True)
class OrderConflict:
    """One element that several iterations of a loop touch.

    ``kind`` is read_write, write_write or unchecked. ``operators`` are those that the loop was made for, the
    one that requested it last. ``by_contract``: the operator leaves the order undefined.
    """

    kind: str
    buffer: str
    kernel: str
    operators: tuple[str, ...] = ()
    by_contract: bool = False

    @classmethod
    def from_facts(cls, row: Mapping[str, Any]) -> OrderConflict:
        """Builds a conflict from a row of the fact ``order_conflicts``."""
        return cls(
            kind=str(row.get("kind", "")),
            buffer=str(row.get("buffer", "")),
            kernel=str(row.get("kernel", "")),
            operators=tuple(str(name) for name in row.get("operators") or ()),
            by_contract=bool(row.get("by_contract")),
        )

    @property
    def is_fault(self) -> bool:
        """Whether no operator contract allows it."""
        return self.kind in ("read_write", "write_write") and not self.by_contract

    def evidence(self, maker: Stage) -> Evidence:
        """Returns the conflict as evidence against the loop's maker, lowering or the scheduler."""
        return Evidence.of(
            EvidenceKind.ORDER_CONFLICT,
            maker=maker,
            operator=self.operators[-1] if self.operators else "",
            kernel=self.kernel,
            conflict=self.kind,
            buffer=self.buffer,
        )

    def component(self) -> Component | None:
        """Returns the operator that requested the loop, or None."""
        if not self.operators:
            return None
        return Component(kind="op", name=self.operators[-1], detail=f"{self.kernel}, {self.buffer}")


def conflicts_of(step: Step | None) -> list[OrderConflict]:
    """Returns the conflicts that a run of the loop interpreter recorded, reads first."""
    rows: Sequence[Mapping[str, Any]] = (step.outcome.facts.get("order_conflicts") or ()) if step else ()
    conflicts = [OrderConflict.from_facts(row) for row in rows]
    return sorted(conflicts, key=lambda conflict: conflict.kind != "read_write")


def fault(step: Step | None) -> OrderConflict | None:
    """Returns the first conflict that is the fault of the loop's maker, or None."""
    return next((conflict for conflict in conflicts_of(step) if conflict.is_fault), None)


def left_open(step: Step | None) -> list[Considered]:
    """Returns what keeps later stages from being proven: a loop whose order is undefined."""
    conflicts = [conflict for conflict in conflicts_of(step) if not conflict.is_fault]
    return [
        Considered(
            name=NAME,
            open=True,
            why=Evidence.of(
                EvidenceKind.ORDER_UNDEFINED,
                operator=conflict.operators[-1] if conflict.operators else "",
                kernel=conflict.kernel,
                conflict=conflict.kind,
                buffer=conflict.buffer,
            ),
        )
        for conflict in conflicts[:1]
    ]

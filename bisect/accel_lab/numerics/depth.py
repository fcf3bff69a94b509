"""Depth: errors operator by operator, and the first module and operator that diverge from float64.

A value diverges where its error is more than eager's own error and the floor of its dtype allow; the child,
which has the values, decides it for each operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator's value in the tested run. Errors are the greatest absolute ones against float64.

    ``error`` is taken over the elements that differ from eager's: 0 says that there are none.

    ``wrong`` elements diverge; an error is None for integers and booleans.
    """

    node: str
    op: str
    module: str
    source: str
    shape: tuple[int, ...]
    dtype: str
    error: float | None
    eager: float | None
    wrong: int
    differs: bool

    @staticmethod
    def from_row(row: Mapping[str, Any]) -> Operator:
        """Read one row of the fact ``divergence``, whose shape was checked when it was loaded."""
        return Operator(
            node=row["node"],
            op=row["op"],
            module=row.get("module") or "",
            source=row.get("source") or "",
            shape=tuple(row["shape"]),
            dtype=row["dtype"],
            error=_number(row["error"]),
            eager=_number(row["eager"]),
            wrong=int(row["wrong"] or 0),
            differs=row["differs"],
        )


@dataclass(frozen=True, kw_only=True)
class Module:
    """A module's operators taken together; ``first`` is its first operator that differs, empty for none."""

    name: str
    operators: int
    error: float | None
    eager: float | None
    first: str


@dataclass(frozen=True, kw_only=True)
class Depth:
    """The operators of one graph in order. ``call`` counts from 0; ``note`` is what to know of the run."""

    operators: tuple[Operator, ...]
    call: int
    note: str

    @property
    def first(self) -> Operator | None:
        """The first operator that diverges from float64."""
        return next((one for one in self.operators if one.differs), None)

    @property
    def first_module(self) -> Module | None:
        """The first module with such an operator; None too where the operators belong to no module."""
        return next((one for one in self.modules if one.first and one.name), None)

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules in the order in which their first operators run."""
        names = dict.fromkeys(one.module for one in self.operators)
        return tuple(self._module(name) for name in names)

    def _module(self, name: str) -> Module:
        mine = [one for one in self.operators if one.module == name]
        return Module(
            name=name,
            operators=len(mine),
            error=_greatest([one.error for one in mine]),
            eager=_greatest([one.eager for one in mine]),
            first=next((one.node for one in mine if one.differs), ""),
        )

    def to_json(self) -> dict[str, Any]:
        """The part ``layers`` of diff.json."""
        first, module = self.first, self.first_module
        return {
            "first_module": None if module is None else module.name,
            "first_operator": None if first is None else first.node,
            "call": self.call,
            "note": self.note,
            "modules": [asdict(one) for one in self.modules],
            "operators": [asdict(one) for one in self.operators],
        }


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float, str)) else None


def _greatest(values: Sequence[float | None]) -> float | None:
    """The greatest of what is known; NaN is greater than any number."""
    known = [value for value in values if value is not None]
    return max(known, key=lambda value: math.inf if math.isnan(value) else value, default=None)

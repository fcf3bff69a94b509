"""Lists errors per operator and finds the first module and operator that diverge from float64.

A value diverges if its error exceeds what eager's error and the dtype's floor allow. The child, which has the
values, decides this for each operator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Operator:
    """One operator's value in the tested run; errors are the largest absolute ones against float64.

    ``error`` only covers elements that differ from eager's (0: none do). ``wrong`` is the number of elements
    that diverge. Errors are None for integers and booleans.
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
        """Reads a row of the fact ``divergence``, whose shape was checked on loading."""
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
    """A summary of a module's operators; ``first`` is its first operator that diverges, empty if none."""

    name: str
    operators: int
    error: float | None
    eager: float | None
    first: str


@dataclass(frozen=True, kw_only=True)
class Depth:
    """The operators of one graph in order, for one call (counted from 0); ``note`` is a remark on the run."""

    operators: tuple[Operator, ...]
    call: int
    note: str

    @property
    def first(self) -> Operator | None:
        """The first operator that diverges from float64."""
        return next((one for one in self.operators if one.differs), None)

    @property
    def first_module(self) -> Module | None:
        """The first module with an operator that diverges; None if there is none, or it is in no module."""
        return next((one for one in self.modules if one.first and one.name), None)

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules, in the order of their first operators."""
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
        """Returns the part ``layers`` of diff.json."""
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
    """The largest known value; NaN counts as the largest."""
    known = [value for value in values if value is not None]
    return max(known, key=lambda value: math.inf if math.isnan(value) else value, default=None)

"""Collects this process's findings on loops whose result depends on the order of their iterations."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import torch

from .nest_trace import Program

#: One row per buffer, kind and kernel; the rows become the fact `order_conflicts`.
FOUND: List[Dict[str, Any]] = []

#: Limit on the rows.
MOST_ROWS = 50


def note_conflict(
    kind: str,
    programs: Sequence[Program],
    buffer: str,
    points: Sequence[Sequence[int]],
    by_contract: bool = False,
) -> None:
    """Notes a conflict: `kind` is read_write, write_write or unchecked, `points` are the two iterations.

    A write_write conflict is `by_contract` if the operator writes to indices from a tensor (index_put,
    index_copy, scatter): torch does not define which value remains, so the compiler is not at fault. A
    read_write conflict is always a fault, because no operator of torch reads operands that it has written.
    """
    row = {
        "kind": kind,
        "buffer": buffer,
        "kernel": ", ".join(program.name for program in programs),
        "operators": list(dict.fromkeys(name for program in programs for name in program.operators)),
        "by_contract": by_contract,
        "points": [list(point) for point in points],
    }
    known = [{**other, "points": row["points"]} for other in FOUND]
    if row not in known and len(FOUND) < MOST_ROWS:
        FOUND.append(row)


def differ(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns where two values differ by more than 4 eps, as vector and scalar code may; NaN equals NaN."""
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        return a != b
    tolerance = 4 * torch.finfo(a.dtype).eps
    if a.element_size() == 1:
        a, b = a.to(torch.float32), b.to(torch.float32)
    return ~torch.isclose(a, b, rtol=tolerance, atol=0.0, equal_nan=True)


def differing_writes(where: torch.Tensor, what: torch.Tensor) -> List[Tuple[int, int]]:
    """Returns at most one pair of flat positions that write different values to the same offset."""
    where, what = where.reshape(-1), what.reshape(-1)
    if where.numel() < 2:
        return []
    order = torch.argsort(where, stable=True)
    where, what = where[order], what[order]
    same = where[1:] == where[:-1]
    if not bool(same.any()):
        return []
    found = torch.nonzero(same & differ(what[1:], what[:-1])).flatten()
    return [(int(order[n]), int(order[n + 1])) for n in found[:1].tolist()]

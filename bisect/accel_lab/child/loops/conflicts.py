"""What was found of loops whose result depends on the order of their iterations: the facts of one process."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import torch

from .nest_trace import Program

#: One row for each buffer, kind and kernel; they become the fact `order_conflicts`.
FOUND: List[Dict[str, Any]] = []

#: Rows that are kept.
MOST_ROWS = 50


def tell(
    kind: str,
    programs: Sequence[Program],
    buffer: str,
    points: Sequence[Sequence[int]],
    by_contract: bool = False,
) -> None:
    """Note a conflict: `kind` is read_write, write_write or unchecked, `points` are the first two of them.

    Two iterations that write one element are `by_contract` where the operator itself writes where an index
    tensor says: for index_put, index_copy and scatter torch leaves open which of several values stays, so
    that is no fault of who made the loop. An iteration that reads what another one writes always is one: no
    operator of torch reads its operands after it began to write.
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
    """Where two values differ by more than the last bits, in which vector code and scalar code differ.

    NaN is equal to NaN.
    """
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        return a != b
    tolerance = 4 * torch.finfo(a.dtype).eps
    if a.element_size() == 1:
        a, b = a.to(torch.float32), b.to(torch.float32)
    return ~torch.isclose(a, b, rtol=tolerance, atol=0.0, equal_nan=True)


def differing_writes(where: torch.Tensor, what: torch.Tensor) -> List[Tuple[int, int]]:
    """The flat positions of two writes of different values to one offset, if there are any."""
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

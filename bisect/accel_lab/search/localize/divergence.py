"""Finds the first wrong value between the generated kernels, for runs that return wrong numbers.

The child compares each buffer with its node's value, run eagerly and in float64 (``child/capture``). First,
every intermediate value is kept in memory of its own and nothing is fused: if that still fails, the first
wrong node is exact. If it passes, the failure needs fusion, which is reported, and the buffers that exist
anyway are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.findings import Component, Exhibit, Step
from accel_lab.core.outcome import Outcome, Status
from accel_lab.core.stages import Rung, Stage
from accel_lab.core.text import shorten
from accel_lab.core.torch_settings import KERNEL
from accel_lab.core.verdict import Verdict
from accel_lab.search.ladder_runner import LadderRunner, Switches

_STAGES = frozenset({Stage.LOWERING, Stage.SCHEDULER, Stage.CODEGEN, Stage.RUNTIME, Stage.KERNEL})

#: The single switches that keep every intermediate value in memory of its own.
_KEEPING_APART = ("fusion", "inplace_buffers", "buffer_reuse")
#: ``KEPT`` compares with every intermediate value in memory of its own, ``AS_IS`` only buffers between
#: kernels.
KEPT: Switches = (
    ("divergence", {"realize": True}),
    ("inductor", {key: value for name in _KEEPING_APART for key, value in KERNEL[name].items()}),
)
AS_IS: Switches = (("divergence", {"realize": False}),)

_COLUMNS = ("node", "operator", "shape", "dtype", "error, compiled", "error, eager", "")

#: Rows shown before the first wrong node, and after it.
_BEFORE, _AFTER = 24, 8


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The rows of the first graph that differs, else of all graphs; ``first`` is the first wrong row."""

    rows: tuple[Mapping[str, Any], ...]
    first: int | None
    call: int = 0

    @staticmethod
    def of(outcome: Outcome) -> Compared:
        graphs: Sequence[Mapping[str, Any]] = (outcome.facts.get("divergence") or {}).get("graphs") or ()
        for graph in graphs:
            rows = tuple(graph.get("rows") or ())
            first = next((place for place, row in enumerate(rows) if row["differs"]), None)
            if first is not None:
                return Compared(rows=rows, first=first, call=int(graph.get("call") or 0))
        return Compared(rows=tuple(row for graph in graphs for row in graph.get("rows") or ()), first=None)


@dataclass(frozen=True, kw_only=True)
class Diverged:
    """The table for the report, and the operator of the first wrong value, if it is a single one."""

    exhibit: Exhibit
    component: Component | None = None


def first_divergence(
    runner: LadderRunner, culprit_stage: Stage, ladder: Sequence[Step], *, ablation: Sequence[Step] = ()
) -> Diverged | None:
    """Returns the values between kernels with the first wrong one marked; None if there is nothing to show.

    ``ablation`` is the table of switches: if a switch that keeps values apart already fixed the failure, that
    run is not repeated.
    """
    top = next((step for step in ladder if step.rung is Rung.KERNEL), None)
    if top is None or culprit_stage not in _STAGES or runner.baseline.flaky:
        return None
    if not _wrong_numbers(runner, top.outcome):
        return None
    passes_apart = any(s.verdict is Verdict.GOOD and s.switch in _KEEPING_APART for s in ablation)
    if not passes_apart:
        kept = runner.one(Rung.KERNEL, KEPT, "divergence")
        passes_apart = kept.verdict is Verdict.GOOD
        compared = Compared.of(kept.outcome)
        if kept.verdict is Verdict.BAD and compared.first is not None:
            return _exhibit(compared, "with every intermediate value kept in memory it fails in the same way")
    as_is = runner.one(Rung.KERNEL, AS_IS, "divergence")
    compared = Compared.of(as_is.outcome)
    if as_is.verdict is not Verdict.BAD or not compared.rows:
        return None
    needs = (
        "the failure needs fusion or buffer reuse: it passes when every intermediate is materialized in a "
        "buffer of its own"
    )
    return _exhibit(compared, needs if passes_apart else "")


def _wrong_numbers(runner: LadderRunner, outcome: Outcome) -> bool:
    """Whether compiled regions returned other values than uncompiled, even if only the script noticed it."""
    target, base = runner.baseline.target, runner.baseline.uncompiled
    if target is None:
        return False
    if target.kind == "values":
        return True
    # A region that raised has no values, so the failure is not that of the script's own check.
    ended = outcome.status in (Status.EXCEPTION, Status.EXIT) and not outcome.facts.get("caught")
    return ended and base is not None and bool(runner.lab.differences(outcome, base))


def _exhibit(compared: Compared, note: str) -> Diverged:
    if compared.first is None:
        title = "no buffer between the kernels is further from float64 than eager's own value"
        return Diverged(
            exhibit=Exhibit(kind="divergence", title=title, text=note, rows=_table(compared.rows, None))
        )
    row = compared.rows[compared.first]
    known = {str(other["node"]): other for other in compared.rows}
    inputs = [str(name) for name in row.get("inputs") or ()]
    wrong = [name for name in inputs if name in known and known[name]["differs"]]
    compared_inputs = [name for name in inputs if name in known]
    agree = "its inputs agree" if compared_inputs and not wrong else "no value before it differs"
    title = f"first wrong value: {row['node']} ({row['op']}); {agree}"
    lines = [note] if note else []
    lines.append(f"{row['node']}, compiled / eager: {row['values']}")
    between = [str(name) for name in row.get("between") or ()]
    if between:
        lines.append("computed through, in the same kernel: " + ", ".join(between))
    lines += [f"input {name}: {known[name]['values']}" for name in compared_inputs[:8]]
    rest = [name for name in inputs if name not in known]
    if rest:
        lines.append("inputs of the graph, or not compared: " + ", ".join(rest[:12]))
    if compared.call:
        lines.append(f"this is call {compared.call + 1} of the graph; those before it agree")
    start = max(0, compared.first - _BEFORE)
    shown = compared.rows[start : compared.first + _AFTER + 1]
    exhibit = Exhibit(
        kind="divergence", title=title, text="\n".join(lines), rows=_table(shown, compared.first - start)
    )
    op = None
    if not wrong and not between:
        detail = f"{row['node']}, the first value that is wrong; {agree}"
        op = Component(kind="op", name=shorten(str(row["op"]), 120), detail=shorten(detail, 300))
    return Diverged(exhibit=exhibit, component=op)


def _table(rows: Sequence[Mapping[str, Any]], first: int | None) -> tuple[tuple[str, ...], ...]:
    body = tuple(
        (
            str(row["node"]),
            str(row["op"]),
            "x".join(map(str, row["shape"])) or "scalar",
            str(row["dtype"]),
            _error(row["error"], row["wrong"]),
            _error(row["eager"], 0),
            "first" if place == first else "differs" if row["differs"] else "",
        )
        for place, row in enumerate(rows[: _BEFORE + _AFTER + 1])
    )
    return (_COLUMNS, *body)


def _error(error: float | None, wrong: int) -> str:
    if error is None:
        return f"{wrong} differ" if wrong else "equal"
    return f"{error:.3g}"

"""Joins runs by model: what each says of constraints, accuracy and stage; compares two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from .kept_run import KeptRun, Line

SCHEMA = "accel-lab/joint/1"
HEAD = ("model", "constraints", "accuracy", "stage", "verdicts")
RUNS_HEAD = ("run", "kind", "torch", "verdict")
#: Names of the fields by which two runs are compared.
_FIELDS = ("verdict", "constraints", "accuracy", "stage", "component", "confidence", "time")


def joint(runs: Sequence[KeptRun]) -> dict[str, Any]:
    """Returns the object of the joint report (``reporting/joint.schema.json``)."""
    return {
        "schema": SCHEMA,
        "runs": [run.to_json() for run in runs],
        "models": list(_models(runs)),
        "comparison": _comparison(*runs) if len(runs) == 2 else None,
    }


def constraints(line: Line) -> str:
    """Describes violations: ``dtype: 2, layout: 1``, or ``none of 5 violated``."""
    if line.constraints is None:
        return ""
    broken = {name: count for name, count in line.constraints.items() if count}
    if not broken:
        return f"none of {len(line.constraints)} violated" if line.constraints else "none violated"
    return ", ".join(f"{name}: {count}" for name, count in broken.items())


def accuracy(line: Line) -> str:
    """Describes accuracy: ``2 of 9 values differ, at most 0.01 (relative)``."""
    said = []
    if line.different is not None and line.values is not None:
        said.append(f"{line.different} of {line.values} values differ")
    if line.error is not None:
        error = f"{line.error:.3g}" if isinstance(line.error, (int, float)) else line.error
        said.append(f"at most {error} ({line.measure})")
    return ", ".join(said)


def stage(line: Line) -> str:
    """Describes the stage: ``lowering: aten.sum (proven)``."""
    if not line.stage:
        return ""
    text = line.stage + (f": {line.component}" if line.component else "")
    return text + (f" ({line.confidence})" if line.confidence else "")


def time(line: Line) -> str:
    """Returns the time of one call in milliseconds, as text; empty if unknown."""
    if line.seconds is None:
        return ""
    ms = line.seconds * 1e3
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def _models(runs: Sequence[KeptRun]) -> Iterator[dict[str, Any]]:
    """Yields one row per model; each cell has what every run says, with the run's kind and backend.

    If several runs have the same kind, their names are used instead.
    """
    kinds = Counter(run.kind for run in runs)
    names = dict.fromkeys(line.model for run in runs for line in run.lines)
    for name in names:
        row: dict[str, Any] = {"model": name, "constraints": [], "accuracy": [], "stage": [], "verdicts": []}
        for run in runs:
            for line in run.lines:
                if line.model != name:
                    continue
                who = run.kind if kinds[run.kind] == 1 else run.name
                where = " ".join(filter(None, (who, line.backend)))
                cells = {
                    "constraints": constraints(line),
                    "accuracy": accuracy(line),
                    "stage": stage(line),
                    "verdicts": ", ".join(filter(None, (line.verdict, time(line)))),
                }
                for cell, text in cells.items():
                    if text:
                        row[cell].append({"run": run.name, "where": where, "text": text})
        yield row


def _comparison(one: KeptRun, two: KeptRun) -> dict[str, Any]:
    """Compares what both runs say of the same model and backend; lists what only one has."""
    first = {(line.model, line.backend): line for line in one.lines}
    second = {(line.model, line.backend): line for line in two.lines}
    rows = []
    for key in first.keys() & second.keys():
        left, right = _said(first[key]), _said(second[key])
        rows += [
            {"model": key[0], "backend": key[1], "what": name, "first": left[name], "second": right[name]}
            for name in _FIELDS
            if left[name] != right[name]
        ]
    if one.torch != two.torch:
        rows.append({"model": "", "backend": "", "what": "torch", "first": one.torch, "second": two.torch})
    return {
        "first": one.name,
        "second": two.name,
        "shared": len(first.keys() & second.keys()),
        "differences": sorted(rows, key=lambda row: (row["model"], row["backend"])),
        "only_first": [" on ".join(filter(None, key)) for key in first if key not in second],
        "only_second": [" on ".join(filter(None, key)) for key in second if key not in first],
    }


def _said(line: Line) -> dict[str, str]:
    return {
        "verdict": line.verdict,
        "constraints": constraints(line),
        "accuracy": accuracy(line),
        "stage": line.stage,
        "component": line.component,
        "confidence": line.confidence,
        "time": time(line),
    }

"""Reads the folder of an earlier run of any command into a ``KeptRun``.

The files may be a stranger's: each is read up to a size and its shape is checked. A file that the lab would
not write marks the run as damaged; it never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.text import counted
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.core.untrusted.shapes import Range, Table

_MOST_BYTES = 64 << 20
#: Maximum differing results that a benchmark names (``workloads.measure``).
_MOST_NAMED = 10
_TEXT, _COUNT, _NUMBER = (None, str), (None, Range(0)), (None, float, str)


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a run says of one model (or script) on one backend; None if it says nothing.

    ``constraints`` are violations by the constraint's name. ``different`` of ``values`` values differ, by at
    most ``error`` (``measure`` says of what). ``seconds`` is the time of one call, if measured.
    """

    model: str
    backend: str = ""
    constraints: Mapping[str, int] | None = None
    different: int | None = None
    values: int | None = None
    error: float | str | None = None
    measure: str = ""
    stage: str = ""
    component: str = ""
    confidence: str = ""
    verdict: str = ""
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """One earlier run. ``kind`` is the command that made it, ``page`` the file name of its page."""

    name: str
    kind: str
    folder: str
    torch: str = ""
    verdict: str = ""
    stage: str = ""
    page: str = ""
    lines: tuple[Line, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the run as JSON."""
        data = asdict(self)
        return {**data, "lines": list(data["lines"])}


#: The verdict of a run without a result: it is still running, or was stopped.
UNFINISHED = "unfinished"
#: Shown in a list for such a run while a process works in its folder.
RUNNING = "running"

_Reader = Callable[[dict[str, Any], KeptRun], KeptRun]


def kept_run(folder: Path, kind: str = "") -> KeptRun | None:
    """Reads a run's folder; None if no command of the lab left anything in it.

    ``kind`` is the command named by the folder's marker.
    """
    files = ChildFiles(folder)
    run = KeptRun(name=folder.name, kind=kind, folder=str(folder))
    for name, file, shape, page, read in _FILES:
        try:
            data = files.json(file, shape, most=_MOST_BYTES)
        except LabError as error:
            return replace(run, kind=name, verdict=f"damaged: {error}")
        if data is not None:
            known = kind if name == "bisect" and kind == "minimize" else name
            there = page if (folder / page).is_file() else ""
            return read(data, replace(run, kind=known, page=there))
    return None


def _diff(data: dict[str, Any], run: KeptRun) -> KeptRun:
    summary = data["summary"]
    worst = [row["metrics"] for row in data["rows"] if row["metrics"]]
    errors = [one["relative"]["max"] for one in worst if isinstance(one["relative"]["max"], (int, float))]
    verdict = f"{summary['differ']} of {summary['values']} values differ"
    line = Line(
        model=data["program"],
        backend=f"{data['test']} against {data['reference']}",
        different=summary["differ"],
        values=summary["values"],
        error=max(errors, default=None),
        measure="relative",
        verdict="differs" if summary["differ"] else "agrees",
    )
    return replace(run, torch=data["torch"] or "", verdict=verdict, lines=(line,))


def _guards(data: dict[str, Any], run: KeptRun) -> KeptRun:
    breaks, again = sum(one["times"] for one in data["breaks"]), len(data["recompilations"])
    verdict = f"{counted(breaks, 'graph break')}, {counted(again, 'recompilation')}"
    return replace(
        run, torch=data["torch"], verdict=verdict, lines=(Line(model=data["program"], verdict=verdict),)
    )


def _capture(data: dict[str, Any], run: KeptRun) -> KeptRun:
    verdict = f"{counted(len(data['layers']), 'layer')}, {counted(len(data['kernels']), 'kernel')}"
    verdict += "; the script failed" if data["failed"] else ""
    line = Line(model=data["program"], backend=data["backend"], verdict=verdict)
    return replace(run, torch=data["torch"], verdict=verdict, lines=(line,))


def _check(data: dict[str, Any], run: KeptRun) -> KeptRun:
    broken: dict[str, int] = dict.fromkeys(data["constraints"], 0)
    for row in data["violations"]:
        broken[row["constraint"]] = broken.get(row["constraint"], 0) + 1
    count = len(data["violations"])
    warnings = sum(row["severity"] == "warning" for row in data["violations"])
    both = ((count - warnings, "violation"), (warnings, "warning"))
    verdict = ", ".join(counted(number, word) for number, word in both if number) or "no violation"
    line = Line(
        model=data["program"],
        backend=data["accelerator"],
        constraints=broken,
        verdict="violates" if count else "keeps",
    )
    return replace(run, torch=data["torch"] or "", verdict=verdict, lines=(line,))


def _once(data: dict[str, Any], run: KeptRun) -> KeptRun:
    verdict = f"fails: {data['failed']}" if data["failed"] else "passes"
    line = Line(model=data["program"], backend=data["rung"], verdict="fails" if data["failed"] else "passes")
    return replace(run, torch=data["torch"], verdict=verdict, lines=(line,))


def _matrix(data: dict[str, Any], run: KeptRun) -> KeptRun:
    line = Line(model=_program(data["script"]), verdict="; ".join(data["sentences"]))
    return replace(run, verdict=line.verdict, lines=(line,))


def _bench(data: dict[str, Any], run: KeptRun) -> KeptRun:
    lines = tuple(
        Line(
            model=row.get("model", ""),
            backend=row.get("backend", ""),
            constraints=row.get("violations"),
            different=_differing(row.get("distance")),
            values=(row.get("distance") or {}).get("tensors"),
            error=(row.get("distance") or {}).get("to_eager"),
            measure="to eager",
            verdict=row["standing"],
            seconds=_median_s(row.get("latency_ms")),
        )
        for row in data["rows"]
    )
    counts: dict[str, int] = {}
    for line in lines:
        counts[line.verdict] = counts.get(line.verdict, 0) + 1
    verdict = ", ".join(f"{count} {standing}" for standing, count in sorted(counts.items()))
    torch = str((data.get("environment") or {}).get("torch") or "")
    return replace(run, torch=torch, verdict=verdict if data["complete"] else "unfinished", lines=lines)


def _differing(distance: dict[str, Any] | None) -> int | None:
    """Returns how many results differ; None if unknown, or if more may differ than are named."""
    named = (distance or {}).get("differing")
    return len(named) if named is not None and len(named) < _MOST_NAMED else None


def _median_s(spread: dict[str, Any] | None) -> float | None:
    median = (spread or {}).get("median")
    return median / 1e3 if isinstance(median, (int, float)) else None


def _report(data: dict[str, Any], run: KeptRun) -> KeptRun:
    culprit = data.get("culprit") or {}
    component = culprit.get("component") or {}
    errors = [step.get("max_abs_error") for step in data.get("ladder") or () if step.get("verdict") == "bad"]
    numbers = [error for error in errors if isinstance(error, (int, float))]
    stage = culprit.get("stage") or ""
    steps = [step.get("torch") for step in data.get("ladder") or () if step.get("torch")]
    line = Line(
        model=_program(data.get("script") or {}),
        error=max(numbers, default=None),
        measure="absolute",
        stage=stage,
        component=component.get("name") or "",
        confidence=culprit.get("confidence") or "",
        verdict=data["verdict"],
    )
    torch = steps[0] if steps else ""
    return replace(run, torch=torch, verdict=data["verdict"], stage=stage, lines=(line,))


def _triage(data: dict[str, Any], run: KeptRun) -> KeptRun:
    return replace(run, verdict=f"{len(data['scripts'])} scripts, distinct faults: {len(data['faults'])}")


def _record(data: dict[str, Any], run: KeptRun) -> KeptRun:
    capsules = counted(len(data["capsules"]), "capsule")
    verdict = capsules if data["capsules"] else "nothing that was checked was wrong"
    return replace(run, verdict=verdict, lines=(Line(model=_program(data["script"]), verdict=verdict),))


def _program(script: dict[str, Any]) -> str:
    path, module = script.get("path"), script.get("module")
    return Path(path).name if path else f"-m {module}" if module else ""


def _unfinished(data: dict[str, Any], run: KeptRun) -> KeptRun:
    return replace(run, verdict=UNFINISHED)


_SUMMARY = {
    "differ": Range(0),
    "values": Range(0),
}
_STEP = {"verdict?": _TEXT, "torch?": _TEXT, "max_abs_error?": _NUMBER}
_CULPRIT = {"stage?": _TEXT, "confidence?": _TEXT, "component?": (None, {"name?": _TEXT})}
_SCRIPT = {"path?": _TEXT, "module?": _TEXT}
_DISTANCE = {"differing?": (None, [str]), "tensors": _COUNT, "to_eager": _NUMBER}
#: Kind, file, checked shape, page, and reader; the first existing file counts.
_FILES: tuple[tuple[str, str, Any, str, _Reader], ...] = (
    ("matrix", "matrix.json", {"script": _SCRIPT, "sentences": [str]}, "matrix.html", _matrix),
    ("triage", "triage.json", {"scripts": [object], "faults": [object]}, "triage.html", _triage),
    ("record", "record.json", {"script": _SCRIPT, "capsules": [object]}, "", _record),
    (
        "bench",
        "bench.json",
        {
            "complete": bool,
            "environment?": (None, {"torch?": _TEXT}),
            "rows": [
                {
                    **dict.fromkeys(("model?", "backend?", "standing"), str),
                    "violations?": (None, Table(Range(0))),
                    "distance?": (None, _DISTANCE),
                    "latency_ms?": (None, {"median?": _NUMBER}),
                }
            ],
        },
        "bench.html",
        _bench,
    ),
    (
        "diff",
        "diff.json",
        {
            **dict.fromkeys(("program", "test", "reference"), str),
            "torch": _TEXT,
            "summary": _SUMMARY,
            "rows": [{"metrics": (None, {"relative": {"max": _NUMBER}})}],
        },
        "diff.html",
        _diff,
    ),
    (
        "guards",
        "guards.json",
        {"program": str, "torch": str, "breaks": [{"times": Range(0)}], "recompilations": [object]},
        "guards.html",
        _guards,
    ),
    (
        "capture",
        "capture.json",
        {
            **dict.fromkeys(("program", "torch", "backend", "failed"), str),
            "layers": [object],
            "kernels": [object],
        },
        "index.html",
        _capture,
    ),
    (
        "check",
        "check.json",
        {
            **dict.fromkeys(("program", "accelerator"), str),
            "torch": _TEXT,
            "constraints": [str],
            "violations": [{"constraint": str, "severity": str}],
        },
        "",
        _check,
    ),
    ("run", "run.json", dict.fromkeys(("program", "torch", "rung", "failed"), str), "", _once),
    (
        "bisect",
        "report.json",
        {
            "verdict": str,
            "script?": (None, _SCRIPT),
            "culprit?": (None, _CULPRIT),
            "ladder?": (None, [_STEP]),
        },
        "report.html",
        _report,
    ),
    ("bisect", "request.json", Table(), "", _unfinished),
)

"""One job of a triage: a script bisected by a lab of its own, and what its report says of the fault.

A job is data and its answer is data, so any executor with the interface of ``concurrent.futures`` can run it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import accel_lab
from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.core.record import Record
from accel_lab.core.text import shorten
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.execution.processes import process

from .scripts import Script

#: A job has no limit of its own: the bisection has (``--budget``, ``--timeout``).
_LIMITS = Limits(timeout_s=30 * 86_400.0, memory_mb=1 << 24, processes=1 << 16)
_MAIN = "import sys; sys.path.insert(0, {root!r}); from accel_lab.cli.main import main; main()"
_REPORT_BYTES = 256 << 20
#: In a job's folder, once its bisection has come to its end; and the exit codes that say so.
_DONE, _ENDS = "done", (0, 1, 125)
#: How the lab itself could not do it; any other verdict is one of ``Findings.verdict``.
ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Job(Record):
    """What is bisected and where its run goes. ``options`` are those of ``accel-lab bisect``."""

    key: str
    script: Script
    options: tuple[str, ...]
    folder: str
    cwd: str


@dataclass(frozen=True, kw_only=True)
class Fault(Record):
    """What tells one fault from another: stage, component, signature, flips; and the smallest graph."""

    stage: str
    component: str = ""
    signature: str = ""
    flips: tuple[str, ...] = ()
    graph: str = ""

    @property
    def identity(self) -> str:
        """The same for the same stage, component, signature and flips."""
        parts = [self.stage, self.component, self.signature, *self.flips]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Result(Record):
    """The answer to a job. ``run`` is its bisection's folder, ``lines`` the size of its smallest script."""

    key: str
    script: Script
    verdict: str
    said: str = ""
    confidence: str = ""
    fault: Fault | None = None
    run: str = ""
    repro: str = ""
    lines: int | None = None
    bundle: str = ""
    seconds: float = 0.0
    probes: int = 0
    torch: str = ""
    notes: tuple[str, ...] = field(default=())


def run_job(job: Job, stop: threading.Event | None = None) -> Result:
    """Bisect the job's script; a bisection that was cut off before is resumed, a finished one is read.

    Nothing is raised: what the lab could not do is a result as well (:data:`ERROR`).
    """
    place = Path(job.folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        run = _newest(place)
        if not (place / _DONE).is_file():
            # An interrupted bisection has a report too, of what it knew.
            finished, said = _bisect(job, place, run, stop)
            run = _newest(place)
            if not finished:
                return _error(job, said)
            (place / _DONE).touch()
        if run is None:
            return _error(job, "its bisection left no folder")
        return read_result(job, run)
    except (LabError, OSError) as error:
        return _error(job, str(error))


def _error(job: Job, said: str) -> Result:
    return Result(key=job.key, script=job.script, verdict=ERROR, said=shorten(said, 400))


def _newest(place: Path) -> Path | None:
    runs = [path.parent for path in (place / "runs").glob("*/request.json")]
    return max(runs, key=lambda run: run.stat().st_mtime, default=None)


def _bisect(job: Job, place: Path, earlier: Path | None, stop: threading.Event | None) -> tuple[bool, str]:
    """Run ``accel-lab bisect`` in a process of its own; whether it came to its end, and its last words."""
    root = str(Path(accel_lab.__file__).resolve().parents[1])
    if earlier is not None:
        words = ["--resume", str(earlier)]
    else:
        words = ["--out", str(place / "runs"), *job.options, job.script.path]
    ended = process.run(
        [sys.executable, "-c", _MAIN.format(root=root), "bisect", *words],
        cwd=Path(job.cwd),
        env=os.environ,
        stdout=place / "out.txt",
        stderr=place / "err.txt",
        limits=_LIMITS,
        marker=f"triage-{uuid.uuid4().hex}",
        stop=stop,
    )
    lines = (ChildFiles(place).tail("err.txt", 20_000) or "").strip().splitlines()
    said = f"{lines[-1] if lines else 'accel-lab bisect said nothing'} ({ended.how})"
    return ended.exit_code in _ENDS, said


def read_result(job: Job, run: Path) -> Result:
    """What the report of a finished bisection says; raises :class:`Refused` for one of another shape."""
    report = ChildFiles(run).json("report.json", {"verdict": str, "summary?": str}, most=_REPORT_BYTES)
    if report is None:
        raise Refused(f"{run} has no report.json")
    repro = _table(report.get("repro"))
    return Result(
        key=job.key,
        script=job.script,
        verdict=str(report["verdict"]),
        said=shorten(str(report.get("summary") or ""), 1000),
        confidence=str(_table(report.get("culprit")).get("confidence") or ""),
        fault=_fault(report, run),
        run=str(run),
        repro=str(repro.get("script") or ""),
        lines=repro.get("lines_after") if isinstance(repro.get("lines_after"), int) else None,
        bundle=str(report.get("bundle") or ""),
        seconds=_number(_table(report.get("seconds")).get("total")),
        probes=int(_number(report.get("probes"))),
        torch=str(_table(report.get("environment")).get("torch") or ""),
        notes=tuple(shorten(str(line), 300) for line in _list(report.get("unasked"))[:10]),
    )


def _fault(report: Mapping[str, Any], run: Path) -> Fault | None:
    """The fault of a report that names a stage."""
    culprit = _table(report.get("culprit"))
    if report["verdict"] != "fails" or not culprit.get("stage"):
        return None
    part = _table(culprit.get("component"))
    flips = [_table(flip) for flip in _list(_table(report.get("versions")).get("flips"))]
    return Fault(
        stage=str(culprit["stage"]),
        component=f"{part['kind']} {part['name']}" if part.get("name") else "",
        signature=_signature(_table(_table(report.get("baseline")).get("signature"))),
        flips=tuple(f"{flip.get('kind')} {flip.get('at')}" for flip in flips),
        graph=_graph(run, str(_table(report.get("repro")).get("graph") or "")),
    )


def _signature(signature: Mapping[str, Any]) -> str:
    """Kind, type and message; of wrong values not where they are, which is the script's own naming."""
    parts = [signature.get("kind"), signature.get("type")]
    parts += [] if signature.get("kind") == "values" else [signature.get("message")]
    return " ".join(str(part) for part in parts if part)


def _graph(run: Path, path: str) -> str:
    """A hash of the smallest graph's script without its comments; empty where there is none in the run."""
    inside = os.path.realpath(path) if path else ""
    root = os.path.realpath(run)
    if not inside.startswith(root + os.sep):
        return ""
    try:
        text = ChildFiles(Path(inside).parent).text(Path(inside).name)
    except Refused:
        return ""
    lines = [line.rstrip() for line in (text or "").splitlines()]
    code = [line for line in lines if line and not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:20] if code else ""


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


__all__ = ["ERROR", "Fault", "Job", "Result", "read_result", "run_job"]

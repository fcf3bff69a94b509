"""One job of a triage: a script bisected by a lab of its own, and what its report says of the fault.

A job is data and its answer is data, so any executor with the interface of ``concurrent.futures`` can run it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.record import Record
from accel_lab.core.text import shorten
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.engine.lab_command import newest_run, run_lab
from accel_lab.engine.worker import RAN

from .scripts import Script

_REPORT_BYTES = 256 << 20
#: In a job's folder, once its bisection has come to its end.
DONE = "done"
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
    """What makes a fault another one: stage, component, signature, flips; and the smallest graph."""

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
        run = newest_run(place)
        if not (place / DONE).is_file():
            # An interrupted bisection has a report too, of what it knew.
            finished, said = _bisect(job, place, run, stop)
            run = newest_run(place)
            if not finished:
                return error_result(job, said)
            (place / DONE).touch()
        if run is None:
            return error_result(job, "its bisection left no folder")
        return read_result(job, run)
    except (LabError, OSError) as error:
        return error_result(job, str(error))


def error_result(job: Job, said: str) -> Result:
    """The result of a job that the lab could not do."""
    return Result(key=job.key, script=job.script, verdict=ERROR, said=shorten(said, 400))


def _bisect(job: Job, place: Path, earlier: Path | None, stop: threading.Event | None) -> tuple[bool, str]:
    """Run ``accel-lab bisect`` in a process of its own; whether it came to its end, and its last words."""
    if earlier is not None:
        words = ["bisect", "--resume", str(earlier)]
    else:
        words = ["bisect", "--out", str(place / "runs"), *job.options, job.script.path]
    ended = run_lab(words, cwd=Path(job.cwd), folder=place, stop=stop)
    return ended.finished, ended.said


def read_result(job: Job, run: Path) -> Result:
    """What the report of a finished bisection says; raises :class:`Refused` for one of another shape.

    A run of another machine names its files by where they lay there; here they are named by where they lie.
    """
    origin = _origin(Path(job.folder))

    def here(path: object) -> str:
        text = str(path or "")
        inside = bool(origin) and text.startswith(f"{origin}/")
        return os.path.join(job.folder, text[len(origin) + 1 :]) if inside else text

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
        fault=_fault(report, run, here(_table(report.get("repro")).get("graph"))),
        run=str(run),
        repro=here(repro.get("script")),
        lines=repro.get("lines_after") if isinstance(repro.get("lines_after"), int) else None,
        bundle=here(report.get("bundle")),
        seconds=_number(_table(report.get("seconds")).get("total")),
        probes=int(_number(report.get("probes"))),
        torch=str(_table(report.get("environment")).get("torch") or ""),
        notes=tuple(shorten(str(line), 300) for line in _list(report.get("unasked"))[:10]),
    )


def _fault(report: Mapping[str, Any], run: Path, graph: str) -> Fault | None:
    """The fault of a report that names a stage; ``graph`` is the path of its smallest graph."""
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
        graph=_graph(run, graph),
    )


def _origin(folder: Path) -> str:
    """The folder of the job on the worker that ran it; empty where it ran here."""
    ran = ChildFiles(folder).json(RAN, {"origin": str}) if folder.is_dir() else None
    return str(ran["origin"]).rstrip("/") if ran is not None else ""


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

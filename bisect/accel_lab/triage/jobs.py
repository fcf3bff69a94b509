"""One job of a triage: runs ``accel-lab bisect`` on a script, and reads the fault from its report.

Jobs and results are plain data, so any executor with the interface of ``concurrent.futures`` can run them.
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
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.engine.lab_command import newest_run, run_lab
from accel_lab.engine.worker import RAN

from .scripts import Script

_REPORT_BYTES = 256 << 20
#: File in a job's folder that marks a finished bisection.
DONE = "done"
#: Verdict of a job that the lab could not do; other verdicts are those of ``Findings.verdict``.
ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Job(Record):
    """The script to bisect and the folder of its run. ``options`` are those of ``accel-lab bisect``."""

    key: str
    script: Script
    options: tuple[str, ...]
    folder: str
    cwd: str


#: Kinds of components that are places in the script.
_PLACES = ("line ", "frame ")


@dataclass(frozen=True, kw_only=True)
class Fault(Record):
    """What identifies a fault: stage, component, signature and flips; also the hash of the smallest graph."""

    stage: str
    component: str = ""
    signature: str = ""
    flips: tuple[str, ...] = ()
    graph: str = ""

    @property
    def identity(self) -> str:
        """Hash of stage, component, signature and flips.

        A place in the script itself (a line, a frame) is no part of torch: two scripts with one fault differ
        there. It counts only where the failure has no message.
        """
        in_script = self.component.startswith(_PLACES) and len(self.signature.split()) > 2
        parts = [self.stage, "" if in_script else self.component, self.signature, *self.flips]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(frozen=True, kw_only=True)
class Result(Record):
    """Result of a job. ``run`` is the bisection's folder, ``lines`` the size of its smallest script."""

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
    """Bisects the job's script; resumes an interrupted bisection, and rereads a finished one.

    It never raises for what the lab could not do: that becomes a result with verdict :data:`ERROR`.
    """
    place = Path(job.folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        run = newest_run(place)
        if not (place / DONE).is_file():
            # An interrupted bisection has a partial report too, so DONE decides.
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
    """Returns the result of a job that the lab could not do."""
    return Result(key=job.key, script=job.script, verdict=ERROR, said=shorten(said, 400))


def _bisect(job: Job, place: Path, earlier: Path | None, stop: threading.Event | None) -> tuple[bool, str]:
    """Runs ``accel-lab bisect`` in its own process; returns whether it finished, and its last line."""
    if earlier is not None:
        words = ["bisect", "--resume", str(earlier)]
    else:
        words = ["bisect", "--out", str(place / "runs"), *job.options, job.script.path]
    ended = run_lab(words, cwd=Path(job.cwd), folder=place, stop=stop)
    return ended.finished, ended.said


def read_result(job: Job, run: Path) -> Result:
    """Reads the report of a finished bisection; raises :class:`UntrustedFileError` for a malformed one.

    A run from another machine has paths of that machine; they are mapped to the fetched files.
    """
    origin = _origin(Path(job.folder))

    def here(path: object) -> str:
        text = str(path or "")
        inside = bool(origin) and text.startswith(f"{origin}/")
        return os.path.join(job.folder, text[len(origin) + 1 :]) if inside else text

    report = ChildFiles(run).json("report.json", {"verdict": str, "summary?": str}, most=_REPORT_BYTES)
    if report is None:
        raise UntrustedFileError(f"{run} has no report.json")
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
    """Returns the fault of a report that names a stage, or None; ``graph`` is its smallest graph's path."""
    culprit = _table(report.get("culprit"))
    if report["verdict"] != "fails" or not culprit.get("stage"):
        return None
    part = _table(culprit.get("component"))
    kind = str(part.get("kind"))
    if kind == "function" and culprit["stage"] == "dynamo" and "torch/" not in str(part.get("detail")):
        kind = "frame"  # a function of the script that Dynamo traced inside another one
    flips = [_table(flip) for flip in _list(_table(report.get("versions")).get("flips"))]
    return Fault(
        stage=str(culprit["stage"]),
        component=f"{kind} {part['name']}" if part.get("name") else "",
        signature=_signature(_table(_table(report.get("baseline")).get("signature"))),
        flips=tuple(f"{flip.get('kind')} {flip.get('at')}" for flip in flips),
        graph=_graph(run, graph),
    )


def _origin(folder: Path) -> str:
    """Returns the job's folder on the worker that ran it; empty if it ran here."""
    ran = ChildFiles(folder).json(RAN, {"origin": str}) if folder.is_dir() else None
    return str(ran["origin"]).rstrip("/") if ran is not None else ""


def _signature(signature: Mapping[str, Any]) -> str:
    """Returns kind, type and message; no message for wrong values, since it has the script's own names."""
    parts = [signature.get("kind"), signature.get("type")]
    parts += [] if signature.get("kind") == "values" else [signature.get("message")]
    return " ".join(str(part) for part in parts if part)


def _graph(run: Path, path: str) -> str:
    """Hashes the smallest graph's script without comments; empty if the run has none."""
    inside = os.path.realpath(path) if path else ""
    root = os.path.realpath(run)
    if not inside.startswith(root + os.sep):
        return ""
    try:
        text = ChildFiles(Path(inside).parent).text(Path(inside).name)
    except UntrustedFileError:
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

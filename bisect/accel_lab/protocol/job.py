"""Defines the job: the JSON file or line that tells a child what to run."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, TypedDict

from .rungs import Rung
from .switches import switch_error

#: Version of the interface between lab and child; increase it with every change of that interface. A run
#: resumed under another version repeats its probes, because an older child's answers may not be comparable.
PROTOCOL = 2


class ProgramJob(TypedDict):
    """The program to run: a script (``path``) or a module (``module``), with its arguments."""

    path: Optional[str]
    module: Optional[str]
    args: List[str]


class Job(TypedDict):
    """One probe as a child receives it; paths are valid in the child's file system."""

    protocol: int
    id: str
    program: ProgramJob
    rung: str
    switches: Dict[str, Any]
    seed: int
    folder: str
    cwd: str
    view: Optional[Dict[str, Any]]
    stdin: str
    stdout: str
    stderr: str
    record_bytes: int
    file_bytes: int
    opened: bool


def job_error(job: Mapping[str, Any]) -> str:
    """Returns why a child refuses the job (protocol version, rung or switches); empty if it accepts."""
    if job.get("protocol") != PROTOCOL:
        return "protocol mismatch: lab %s, child %d" % (job.get("protocol"), PROTOCOL)
    if job["rung"] not in [rung.value for rung in Rung]:
        return "unknown rung %s" % job["rung"]
    return switch_error(job["rung"], job["switches"])

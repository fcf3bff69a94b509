"""The job: what a child is told to run, as the JSON file or line that the lab hands it."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, TypedDict

from .rungs import Rung
from .switches import refusal

#: Changed with every change of what lab and child say to each other. A run that is resumed with another
#: number asks its questions anew: an older child's answers may not be answers to the questions of today.
PROTOCOL = 2


class ProgramJob(TypedDict):
    """The program: a script by path or a module by name."""

    path: Optional[str]
    module: Optional[str]
    args: List[str]


class Job(TypedDict):
    """One question to a child; the paths are as the child sees them."""

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


def objection(job: Mapping[str, Any]) -> str:
    """Why a child does not run a job; empty if it does."""
    if job.get("protocol") != PROTOCOL:
        return "the lab speaks protocol %s, its child %d" % (job.get("protocol"), PROTOCOL)
    if job["rung"] not in [rung.value for rung in Rung]:
        return "the rung %s is not known" % job["rung"]
    return refusal(job["rung"], job["switches"])

"""What travels: a request with its files under their content hash, and the answer of a worker."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import accel_lab
from accel_lab.core.record import Record

#: In a job's pack: the request; below these, the files beside the script and those of the working directory.
REQUEST, BESIDE, CWD = "request.json", "beside", "cwd"
#: In a job's pack too: by their places the hashes of the files that lie in the store by themselves. Those of
#: so many bytes do, for many scripts may share one.
APART, APART_BYTES = "apart.json", 1 << 20


@dataclass(frozen=True, kw_only=True)
class Request(Record):
    """One command of the lab for one script.

    ``words`` are the command and its options. ``script`` and ``cwd`` are places in the pack. ``python`` is
    the interpreter on the asking machine and ``torch`` the version that it has, which a worker's must have
    too; it is empty where the command makes its own environments. ``lab`` is :func:`lab_identity` of the
    asking lab. ``script`` is empty for a command that takes none, ``args`` are what it is given. ``session``
    sets jobs apart that must not share a run: measurements.
    """

    words: tuple[str, ...]
    script: str
    cwd: str
    python: str
    torch: str
    lab: str
    session: str = ""
    args: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PackedJob:
    """A request and its files by their places in the pack."""

    request: Request
    files: Mapping[str, Path]

    @functools.cached_property
    def key(self) -> str:
        """Thirty-two hex digits over the request, the files' contents and the lab's version.

        The path of the interpreter is no part of it: the version of torch is.
        """
        asked = {**self.request.to_json(), "python": ""}
        digests = {name: file_digest(path) for name, path in sorted(self.files.items())}
        return hashlib.sha256(json.dumps([asked, digests], sort_keys=True).encode()).hexdigest()[:32]

    @property
    def apart(self) -> dict[str, str]:
        """The hashes of the large files, which lie in the store by themselves."""
        large = {name: path for name, path in self.files.items() if path.stat().st_size >= APART_BYTES}
        return {name: file_digest(path) for name, path in large.items()}


class State(str, Enum):
    """What became of a job on a worker."""

    #: Its run folder is in the store.
    DONE = "done"
    #: The lab ran and could not do it; another worker could not either.
    FAILED = "failed"
    #: This worker cannot do it: another lab, another build, no room on its disk. Another one may.
    UNFIT = "unfit"
    #: The job itself ends its workers.
    GIVEN_UP = "given_up"


@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """A worker's word on a job. ``said`` is one line for the user, ``worker`` where it ran."""

    key: str
    state: State
    said: str = ""
    worker: str = ""


@dataclass(frozen=True, kw_only=True)
class Ran(Record):
    """In the pack of a run, under ``ran.json``: how it came about.

    ``origin`` is the folder on the worker that the paths in the run's files begin with. ``begun`` says on
    which workers it was begun, in their order; the last one ended it.
    """

    key: str
    origin: str
    worker: str
    exit_code: int | None
    said: str = ""
    seconds: float = 0.0
    begun: tuple[str, ...] = field(default=())


@functools.cache
def lab_identity() -> str:
    """The lab's version and a hash of its sources: two labs that answer alike have the same."""
    root = Path(accel_lab.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{accel_lab.__version__} {digest.hexdigest()[:12]}"


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's content; many scripts may name the same one, so it is read once."""
    found = path.stat()
    return _digest(str(path), found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=10_000)
def _digest(path: str, size: int, changed: int) -> str:
    """``size`` and ``changed`` (ns) tell a file from what lay there before."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


__all__ = [
    "APART",
    "BESIDE",
    "CWD",
    "REQUEST",
    "Answer",
    "PackedJob",
    "Ran",
    "Request",
    "State",
    "file_digest",
    "lab_identity",
]

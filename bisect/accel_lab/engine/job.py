"""The data that travels: a request with its files under a content hash, and a worker's answer."""

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

#: Names in a job's pack: the request, the files next to the script, and those of the working directory.
REQUEST, SCRIPT_FOLDER, CWD = "request.json", "beside", "cwd"
#: Name in a job's pack of the table with the hashes of large files, which are stored separately because many
#: scripts may share one; and the size in bytes from which a file counts as large.
LARGE_FILES, LARGE_FILE_BYTES = "apart.json", 1 << 20


@dataclass(frozen=True, kw_only=True)
class Request(Record):
    """One command of the lab for one script.

    ``words`` are the command and its options. ``script`` and ``cwd`` are paths in the pack; ``script`` is
    empty for a command without one. ``args`` are the script's arguments. ``python`` is the interpreter on the
    requesting machine and ``torch`` its version, which a worker's must match; ``torch`` is empty if the
    command makes its own environments. ``lab`` is :func:`lab_identity` of the requesting lab. ``session``
    distinguishes jobs that must not share a run, such as measurements.
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
    """A request and its files, by their paths in the pack."""

    request: Request
    files: Mapping[str, Path]

    @functools.cached_property
    def key(self) -> str:
        """Thirty-two hex digits over the request, the files' contents and the lab's version.

        The interpreter's path is not included, but torch's version is.
        """
        asked = {**self.request.to_json(), "python": ""}
        digests = {name: file_digest(path) for name, path in sorted(self.files.items())}
        return hashlib.sha256(json.dumps([asked, digests], sort_keys=True).encode()).hexdigest()[:32]

    @property
    def apart(self) -> dict[str, str]:
        """Hashes of the large files, which are stored separately."""
        large = {name: path for name, path in self.files.items() if path.stat().st_size >= LARGE_FILE_BYTES}
        return {name: file_digest(path) for name, path in large.items()}


class State(str, Enum):
    """Result of a job on a worker."""

    #: The run folder is in the store.
    DONE = "done"
    #: The lab failed; another worker would fail too.
    FAILED = "failed"
    #: This worker cannot run it: another lab, another build, or a full disk. Another worker may.
    UNFIT = "unfit"
    #: The job kills its workers.
    GIVEN_UP = "given_up"


@dataclass(frozen=True, kw_only=True)
class Answer(Record):
    """A worker's answer. ``said`` is one line for the user, ``worker`` is where the job ran."""

    key: str
    state: State
    said: str = ""
    worker: str = ""


@dataclass(frozen=True, kw_only=True)
class Ran(Record):
    """How a run was made; ``ran.json`` in the run's pack.

    ``origin`` is the folder on the worker with which paths in the run's files begin. ``begun`` lists the
    workers that began the job, in order; the last one finished it.
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
    """Returns the lab's version and a hash of its sources; equal labs give equal answers."""
    root = Path(accel_lab.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{accel_lab.__version__} {digest.hexdigest()[:12]}"


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file; cached, because many scripts may name the same file."""
    found = path.stat()
    return _digest(str(path), found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=10_000)
def _digest(path: str, size: int, changed: int) -> str:
    """Keyed by ``size`` and ``changed`` (ns) too, so that a replaced file is read again."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


__all__ = [
    "CWD",
    "LARGE_FILES",
    "REQUEST",
    "SCRIPT_FOLDER",
    "Answer",
    "PackedJob",
    "Ran",
    "Request",
    "State",
    "file_digest",
    "lab_identity",
]

"""Finds the scripts of a folder or of a list, and hashes their contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.errors import UsageError
from accel_lab.core.record import Record
from accel_lab.engine.job import file_digest
from accel_lab.execution.programs import CAPSULE, CAPSULE_SCRIPT, read_program

from .files import needed_beside

#: Folders without scripts of the user's.
_NOT_LOOKED_AT = frozenset({"__pycache__", "node_modules", "site-packages"})
MOST_SCRIPTS = 100_000


@dataclass(frozen=True, kw_only=True)
class Script(Record):
    """One script to bisect.

    ``name`` is its relative path, ``sha256`` covers it and the files that it needs.
    """

    path: str
    name: str
    sha256: str

    def key(self, options: Sequence[str]) -> str:
        """Twenty hex digits over everything that affects the answer: the content and the options."""
        payload = json.dumps([self.sha256, list(options)])
        return hashlib.sha256(payload.encode()).hexdigest()[:20]


@dataclass(frozen=True, kw_only=True)
class Found:
    """The scripts of a place, and a reason for each file that is not a valid script."""

    scripts: tuple[Script, ...]
    refused: tuple[str, ...] = ()


def find_scripts(place: Path) -> Found:
    """Returns the scripts of a folder, or those listed in a file (with paths relative to that file).

    Raises :class:`UsageError` if there is none.
    """
    if place.is_dir():
        paths = sorted(path for path in place.rglob("*.py") if _is_wanted(path, place))
        names = [str(path.relative_to(place)) for path in paths]
    else:
        lines = [line.strip() for line in _lines(place)]
        names = [line for line in lines if line and not line.startswith("#")]
        paths = [place.parent / name for name in names]
    if len(paths) > MOST_SCRIPTS:
        raise UsageError(f"{place} has {len(paths):,} scripts: triage at most {MOST_SCRIPTS:,} at a time")
    scripts, refused = [], []
    for path, name in zip(paths, names, strict=True):
        try:
            program = read_program(str(path), None, ())
        except UsageError as error:
            refused.append(str(error))
            continue
        assert program.path is not None
        digest = _digest(Path(program.path), program.sha256)
        scripts.append(Script(path=program.path, name=name, sha256=digest))
    if not scripts:
        why = f" ({refused[0]})" if refused else ""
        raise UsageError(f"{place} has no script to bisect{why}: name a folder of scripts, or a list of them")
    return Found(scripts=tuple(scripts), refused=tuple(refused))


def _digest(path: Path, sha256: str) -> str:
    """Returns a digest of the script and of the files that it needs (:mod:`.files`)."""
    files = needed_beside(path)
    if not files:
        return sha256
    digest = hashlib.sha256(sha256.encode())
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0{file_digest(file)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _is_wanted(path: Path, place: Path) -> bool:
    """Whether a path is a script; skips hidden files, and in a capsule all but the capsule's script."""
    parts = path.relative_to(place).parts
    if any(part.startswith(".") or part in _NOT_LOOKED_AT for part in parts):
        return False
    if path.name == "__init__.py" or not path.is_file():
        return False
    return not (path.parent / CAPSULE).is_file() or path.name == CAPSULE_SCRIPT


def _lines(place: Path) -> list[str]:
    try:
        return place.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{place} cannot be read as a list of scripts: {why}") from None

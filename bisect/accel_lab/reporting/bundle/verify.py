"""Checks a bundle of any origin before writing a byte of it, and unpacks it only if sound.

A manifest proves that a bundle is complete, not who made it: re-running a bundle runs the code in it, which
:mod:`.run_again` does.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.variables import restricted_environment

from .limits import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_MANIFEST_BYTES,
    MAX_RATIO,
    MAX_TOTAL_BYTES,
    RATIO_FLOOR_BYTES,
    name_problem,
    shown_name,
)
from .run_again import MATCH, Haste, Places, Runner, prepare, put_in_place, rerun
from .writer import MANIFEST, SCHEMA

_CHUNK = 1 << 16
#: A bundle cannot be run again without these.
REQUIRED = ("repro.py", "expected.json", "rerun.py", "rerun.sh", "report.json")


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One row of the manifest."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The manifest of a checked bundle; every file had this size and hash when it was read."""

    path: Path
    accel_lab: str
    files: tuple[Listed, ...]
    dropped: tuple[dict[str, Any], ...]
    report: dict[str, Any]

    @property
    def size(self) -> int:
        """Unpacked size of the bundle in bytes."""
        return sum(row.size for row in self.files)


def check_bundle(path: Path) -> Manifest:
    """Returns the manifest of a sound bundle; raises UsageError or LabError with one line otherwise."""
    with _opened(path) as archive:
        manifest, _ = _checked(path, archive)
        return manifest


def extract_bundle(path: Path, folder: Path) -> Manifest:
    """Unpacks a bundle into a new or empty folder, after checking all of it.

    The files are read and hashed again while unpacking, so a file that changed meanwhile is refused. Raises
    UsageError for a folder that is not empty or a bundle that is not sound.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty: name a new folder to unpack into")
    with _opened(path) as archive:
        manifest, infos = _checked(path, archive)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=folder) as draft:
            for row in manifest.files:
                _write(archive, infos[row.path], row, Path(draft, row.path))
            _write_bytes(Path(draft, MANIFEST), _read(archive, infos[MANIFEST], MAX_MANIFEST_BYTES))
            for item in sorted(Path(draft).iterdir()):
                item.rename(folder / item.name)
    return manifest


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A bundle that was run again: whether it failed as recorded, its output, and notes about it."""

    manifest: Manifest
    matches: bool
    said: str
    notes: tuple[str, ...]
    seconds: float = 0.0


def verify_bundle(
    path: Path,
    *,
    confirmed: bool,
    python: str,
    run: Runner,
    timeout_s: float = 900.0,
    environment: Mapping[str, str] | None = None,
    library: Callable[[], Path] | None = None,
    folder: Path | None = None,
    missing: Iterable[tuple[str, Path]] = (),
    haste: Haste | None = None,
) -> Verified:
    """Checks a bundle and runs it again, with the lab's own rerun.py and an environment without secrets.

    ``confirmed``: the responsible person agreed to run the bundle's code; for a bundle that it just wrote the
    lab confirms itself. ``python`` is the interpreter and ``run`` starts it (``execution.process.run``).
    ``environment`` is reduced for it, default this process's. ``library`` makes the folder from which a
    script imports the lab's accelerators. ``folder`` is an empty working folder, default a temporary one.
    ``missing`` are files that did not fit into the bundle: name in it, and path. ``haste`` sets shorter
    limits. Raises :class:`UsageError` for a bundle that is not sound or not confirmed, and :class:`LabError`
    if its run gave no answer.
    """
    manifest = check_bundle(path)
    if not confirmed:
        raise UsageError(f"{path.name} was not run: running its author's code was not confirmed")
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="accel-lab-")))
        places = Places(root=folder)
        extract_bundle(path, places.bundle)
        put_in_place(places, missing)
        notes = prepare(places, haste)
        ended, said = rerun(
            places,
            python=python,
            run=run,
            timeout_s=timeout_s,
            environment=restricted_environment(
                os.environ if environment is None else environment, places.home
            ),
            library=library,
            marker=f"verify-{secrets.token_hex(8)}",
        )
    matches = ended.exit_code == MATCH
    return Verified(manifest=manifest, matches=matches, said=said, notes=tuple(notes), seconds=ended.seconds)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens the zip; turns errors of the zip reader into one-line UsageError or LabError."""
    if not path.is_file():
        raise UsageError(f"no such bundle: {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except LabError:
        raise
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError) as error:
        raise UsageError(f"{path.name} is not a sound zip file: {error}") from None
    except (OSError, ValueError, RuntimeError, OverflowError) as error:
        raise LabError(f"{path.name} cannot be read: {error}") from None
    except Exception as error:
        # zlib.error and struct.error have no common base, and both mean damaged bytes.
        if type(error).__name__ != "error":
            raise
        raise UsageError(f"{path.name} is not a sound zip file: {error}") from None


def _checked(path: Path, archive: zipfile.ZipFile) -> tuple[Manifest, dict[str, zipfile.ZipInfo]]:
    infos = _entries(path, archive)
    if MANIFEST not in infos:
        raise UsageError(f"{path.name} is not an accel-lab bundle: it has no {MANIFEST}")
    manifest = _parse(path, _read(archive, infos[MANIFEST], MAX_MANIFEST_BYTES))
    listed = {row.path for row in manifest.files}
    for name in sorted(infos):
        if name not in listed and name != MANIFEST:
            raise UsageError(f"{path.name} was tampered with: {name} is not in its manifest")
    for name in sorted(listed):
        if name not in infos:
            raise UsageError(f"{path.name} is not whole: {name} is missing")
    for name in REQUIRED:
        if name not in listed:
            raise UsageError(f"{path.name} cannot be run again: its manifest lists no {name}")
    total = 0
    report = b""
    for row in manifest.files:
        if infos[row.path].file_size != row.size:
            raise UsageError(
                f"{path.name} was tampered with: {row.path} has another size than its manifest says"
            )
        data = _digest(archive, infos[row.path], row, keep=row.path == "report.json")
        report = data or report
        total += row.size
        if total > MAX_TOTAL_BYTES:
            raise UsageError(f"{path.name} is refused: more than {MAX_TOTAL_BYTES:,} bytes unpacked")
    return _with_report(manifest, report), infos


def _entries(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Returns the entries by name, after checking everything that the zip's directory shows."""
    infos = archive.infolist()
    if len(infos) > MAX_FILES:
        raise UsageError(f"{path.name} is refused: more than {MAX_FILES:,} entries")
    if sum(info.file_size for info in infos) > MAX_TOTAL_BYTES:
        raise UsageError(f"{path.name} is refused: more than {MAX_TOTAL_BYTES:,} bytes unpacked")
    found: dict[str, zipfile.ZipInfo] = {}
    folded: set[str] = set()
    for info in infos:
        _check_entry(path, info)
        if info.filename.casefold() in folded:
            raise UsageError(f"{path.name} is refused: two entries are called {info.filename}")
        folded.add(info.filename.casefold())
        found[info.filename] = info
    for name in found:
        if any(str(parent).casefold() in folded for parent in _parents(name)):
            raise UsageError(f"{path.name} is refused: {name} lies below an entry that is a file")
    _check_overlap(path, infos)
    return found


def _check_entry(path: Path, info: zipfile.ZipInfo) -> None:
    name = info.orig_filename
    shown = shown_name(name)[:120]
    problem = name_problem(name) or ("" if name == info.filename else "unsafe entry name")
    if problem:
        raise UsageError(f"{path.name} is refused: {problem} ({shown})")
    mode = info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise UsageError(f"{path.name} is refused: {shown} is a link or another special file")
    if info.flag_bits & 0x1:
        raise UsageError(f"{path.name} is refused: {shown} is encrypted")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(f"{path.name} is refused: {shown} is packed by an unexpected method")
    if info.file_size > MAX_FILE_BYTES:
        raise UsageError(f"{path.name} is refused: {shown} has more than {MAX_FILE_BYTES:,} bytes")
    if info.file_size > max(RATIO_FLOOR_BYTES, MAX_RATIO * info.compress_size):
        raise UsageError(f"{path.name} is refused: {shown} unpacks to {MAX_RATIO} times its size and more")


def _check_overlap(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    """Refuses entries that share bytes, by which a small file unpacks to a huge one."""
    end = 0
    for info in sorted(infos, key=lambda i: i.header_offset):
        if info.header_offset < end:
            raise UsageError(f"{path.name} is refused: its entries overlap")
        end = info.header_offset + 30 + len(info.orig_filename) + info.compress_size


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _parse(path: Path, data: bytes) -> Manifest:
    try:
        content = json.loads(data.decode("utf-8"))
        if content["schema"] != SCHEMA:
            raise UsageError(f"{path.name} has the format {str(content['schema'])[:80]!r}, not {SCHEMA!r}")
        files = tuple(
            Listed(
                path=_typed(row["path"], str),
                size=_typed(row["size"], int),
                sha256=_typed(row["sha256"], str),
            )
            for row in _typed(content["files"], list)
        )
        dropped = tuple(_typed(row, dict) for row in _typed(content.get("dropped", []), list))
        version = _typed(content["accel_lab"], str)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise UsageError(f"{path.name} has a damaged manifest") from None
    if len({row.path for row in files}) != len(files):
        raise UsageError(f"{path.name} has a damaged manifest: a file is listed twice")
    return Manifest(path=path, accel_lab=version, files=files, dropped=dropped, report={})


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"not a {kind.__name__}")
    return value


def _with_report(manifest: Manifest, data: bytes) -> Manifest:
    try:
        report = _typed(json.loads(data.decode("utf-8")), dict)
    except (ValueError, TypeError, RecursionError):
        raise UsageError(f"{manifest.path.name} has a damaged report.json") from None
    return Manifest(
        path=manifest.path,
        accel_lab=manifest.accel_lab,
        files=manifest.files,
        dropped=manifest.dropped,
        report=report,
    )


def _chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> Iterator[bytes]:
    """Yields the entry's unpacked bytes, at most ``limit``: the declared size is not trusted."""
    count = 0
    with archive.open(info) as stream:
        while chunk := stream.read(_CHUNK):
            count += len(chunk)
            if count > limit:
                raise UsageError(f"{info.filename} unpacks to more than {limit:,} bytes")
            yield chunk


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limit: int) -> bytes:
    return b"".join(_chunks(archive, info, limit))


def _digest(archive: zipfile.ZipFile, info: zipfile.ZipInfo, row: Listed, *, keep: bool) -> bytes:
    digest, kept = hashlib.sha256(), []
    for chunk in _chunks(archive, info, row.size):
        digest.update(chunk)
        if keep:
            kept.append(chunk)
    if digest.hexdigest() != row.sha256:
        raise UsageError(
            f"the bundle was tampered with: {row.path} has another sha256 than its manifest says"
        )
    return b"".join(kept)


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, row: Listed, target: Path) -> None:
    digest = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _new_file(target, executable=row.path in ("rerun.py", "rerun.sh")) as file:
        for chunk in _chunks(archive, info, row.size):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != row.sha256:
        raise UsageError(f"the bundle changed while it was read: {row.path}")


def _write_bytes(target: Path, data: bytes) -> None:
    with _new_file(target, executable=False) as file:
        file.write(data)


def _new_file(target: Path, *, executable: bool) -> Any:
    """Opens a file for writing that must not exist yet."""
    return os.fdopen(
        os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if executable else 0o644), "wb"
    )

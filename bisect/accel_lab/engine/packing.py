"""Packs a job or a run folder into a zip file of regular files, and unpacks it within limits."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from accel_lab.core.errors import LabError

#: Most bytes and files that are unpacked.
MOST_BYTES, MOST_FILES = 8 << 30, 200_000
#: In a run's folder: the unpacked copy of the lab's code is skipped, also in each release's folder.
_LIBRARY, _RELEASES = "lib", "versions"
_LOCK = "lock.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)


class BadPack(LabError):
    """A pack is damaged, or was not written by the lab."""


def pack(target: Path, files: Iterable[tuple[str, Path]], texts: Iterable[tuple[str, str]] = ()) -> None:
    """Writes files and texts into a zip file under their names (with ``/`` between folders)."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, text in texts:
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), text.encode("utf-8", "backslashreplace"))
        for name, path in files:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (os.stat(path).st_mode & 0o777) << 16
            with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as into:
                while piece := source.read(1 << 20):
                    into.write(piece)


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the regular files below a job's folder (``runs/NAME/...``) with their names; follows no link."""
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                path = Path(entry.path)
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and not _is_library(path.relative_to(folder).parts):
                    waiting.append(path)
                elif stat.S_ISREG(mode) and entry.name != _LOCK:
                    yield path.relative_to(folder).as_posix(), path


def _is_library(parts: tuple[str, ...]) -> bool:
    """Whether the path is ``runs/NAME/lib`` or ``runs/NAME/versions/RELEASE/lib``."""
    if parts[-1] != _LIBRARY:
        return False
    return len(parts) == 3 or (len(parts) == 5 and parts[2] == _RELEASES)


def unpack(source: Path, folder: Path) -> None:
    """Unpacks a zip file below a folder; raises :class:`BadPack` if it is damaged or a name leads outside."""
    try:
        with zipfile.ZipFile(source) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_FILES or sum(info.file_size for info in infos) > MOST_BYTES:
                raise BadPack(f"{source.name} holds more than is unpacked")
            for info in infos:
                target = folder / _safe(info.filename, source)
                target.parent.mkdir(parents=True, exist_ok=True)
                # Never write through an existing link.
                target.unlink(missing_ok=True)
                with archive.open(info) as stream, target.open("xb") as into:
                    while piece := stream.read(1 << 20):
                        into.write(piece)
                if info.external_attr >> 16 & 0o100:
                    target.chmod(0o755)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise BadPack(f"{source.name} is damaged: {error}") from None


def _safe(name: str, source: Path) -> PurePosixPath:
    place = PurePosixPath(name)
    if not place.parts or place.is_absolute() or ".." in place.parts or "\\" in name or "\0" in name:
        raise BadPack(f"{source.name} holds {name!r}, which leads out of its folder")
    return place


__all__ = ["BadPack", "files_below", "pack", "unpack"]

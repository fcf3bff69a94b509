"""Chooses what a container sees of this machine: the run's own folder writable, the script's read-only.

Every folder is mounted at its own path, so that paths in jobs, tracebacks and links mean the same inside.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docker.types import Mount

# User in the container of a lab that runs as root; no machine's user has this uid.
NOBODY = 61_337
COPY_BYTES = 64 << 20
COPY_ENTRIES = 2_000
# Folders that are never mounted as a whole.
_WIDE = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt"),
        *("/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/Users"),
    }
)


@dataclass(frozen=True, kw_only=True)
class User:
    """The user in the container. ``owns`` means that it differs from ours and must own the run's folder."""

    uid: int
    gid: int
    owns: bool = False

    @property
    def text(self) -> str:
        return f"{self.uid}:{self.gid}"


def user_for(security: Sequence[str]) -> User:
    """Chooses the user in the container, given the daemon's security options.

    It is the caller, who can then read and remove what the run wrote. A rootless daemon maps its root to the
    caller. If the caller is root, it is an unprivileged user.
    """
    if any("name=rootless" in option for option in security):
        return User(uid=0, gid=0)
    if os.getuid() == 0:
        return User(uid=NOBODY, gid=NOBODY, owns=True)
    return User(uid=os.getuid(), gid=os.getgid())


def is_wide(folder: Path) -> bool:
    """Whether a folder holds far more than a script's own files, such as a home or a part of the system."""
    own = Path.home()
    return (
        folder == Path(folder.anchor)
        or str(folder) in _WIDE
        or folder in (own, *own.parents, Path(tempfile.gettempdir()))
        or folder.parent == Path("/home")
    )


def shown(paths: Sequence[Path]) -> list[Path]:
    """Returns the folders or single files to mount for these paths: a file's folder, unless that is too wide.

    Both the path as written and the path without links are returned, since the child resolves links.
    """
    found: dict[Path, None] = {}
    for path in paths:
        for one in (Path(os.path.abspath(path)), path.resolve()):
            if not one.exists():
                continue
            place = one if one.is_dir() else one.parent
            if not is_wide(place):
                found[place] = None
            elif one.is_file():
                found[one] = None
    kept = list(found)
    return [place for place in kept if not any(other in place.parents for other in kept)]


def homes_of(places: Sequence[Path]) -> list[Path]:
    """Returns the home folders above these places.

    The image may have such a folder and close it to the container's user (``/root`` is only for root), who
    then could not reach the mounts below. An open, empty folder is mounted in its place.
    """
    found: dict[Path, None] = {}
    for place in places:
        for outer in place.parents:
            if (
                outer not in places
                and (outer in (Path("/root"), Path.home()) or outer.parent == Path("/home"))
                and outer.parent != outer
                and outer != Path(tempfile.gettempdir())
            ):
                found[outer] = None
    return [home for home in found if not any(other in home.parents for other in found)]


class Views:
    """Makes the mounts of runs; if the container has another user, unreadable files are copied for it."""

    def __init__(self, folder: Path, user: User, python: str = "") -> None:
        """``python`` is the image's interpreter, whose folders are never hidden."""
        self._folder = folder
        self._user = user
        self._python = Path(python)
        self._copies: dict[Path, Path] = {}

    def mounts(self, read: Sequence[Path], write: Path) -> list[Mount]:
        """Returns the mounts of one run: ``read`` read-only, ``write`` writable."""
        shown_too = [place for place in read if place != write]
        sources = {**self._open_homes([*shown_too, write]), **{p: self._source(p) for p in shown_too}}
        for place in (*sources, write):
            for outer, source in sources.items():
                # A mount point below a copy must exist, because nothing can be made on a read-only mount.
                if outer in place.parents and source != outer:
                    self._make_point(source, place.relative_to(outer), place)
        if self._user.owns:
            give(write, self._user)
        read_only = [
            Mount(target=str(place), source=str(source), type="bind", read_only=True)
            for place, source in sources.items()
        ]
        return [*read_only, Mount(target=str(write), source=str(write), type="bind")]

    def _open_homes(self, places: Sequence[Path]) -> dict[Path, Path]:
        """Makes an open folder for each home above the places; a tmpfs would take the image's mode."""
        found = {}
        for home in homes_of(places):
            if home not in self._python.parents:
                found[home] = self._folder / "homes" / str(home).strip("/").replace("/", "-")
                found[home].mkdir(parents=True, exist_ok=True)
                found[home].chmod(0o755)
        return found

    def _source(self, place: Path) -> Path:
        if not self._user.owns or all(_is_open(path) for path in _first(place)):
            return place
        if place not in self._copies:
            target = self._folder / str(len(self._copies)) / (place.name or "root")
            shutil.rmtree(target.parent, ignore_errors=True)
            copy_open(place, target, without=(self._folder, *self._folder.parents[:2]))
            self._copies[place] = target
        return self._copies[place]

    @staticmethod
    def _make_point(folder: Path, inner: Path, place: Path) -> None:
        """Makes a mount point below a folder; its parents are accessible to everybody despite our umask."""
        at = folder
        for part in inner.parts[:-1]:
            at /= part
            if not at.is_dir():
                at.mkdir()
                at.chmod(0o755)
        if place.is_file():
            (folder / inner).touch()
        else:
            (folder / inner).mkdir(exist_ok=True)


def _first(place: Path) -> Iterator[Path]:
    """Yields the folder and its direct entries, whose permissions usually represent the rest; or the file."""
    yield place
    if place.is_dir():
        try:
            yield from (Path(entry.path) for entry in os.scandir(place) if not entry.is_symlink())
        except OSError:
            return


def _is_open(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return True
    wanted = 0o005 if path.is_dir() else 0o004
    return mode & wanted == wanted


def copy_open(place: Path, target: Path, *, without: Container[Path] = ()) -> None:
    """Copies a folder so that everybody can read it, nearest entries first, up to a limit and without caches.

    ``without`` are folders to leave out, since the workspace may be inside the user's folder.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if place.is_file():
        shutil.copyfile(place, target)
        target.chmod(0o644)
        return
    target.mkdir(mode=0o755)
    target.chmod(0o755)
    room, entries, waiting = COPY_BYTES, COPY_ENTRIES, [place]
    while waiting:
        folder = waiting.pop(0)
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            source, copy = Path(entry.path), target / Path(entry.path).relative_to(place)
            if entries <= 0 or entry.name in ("__pycache__", ".git") or source in without:
                continue
            entries -= 1
            try:
                if entry.is_symlink():
                    copy.symlink_to(os.readlink(source))
                elif entry.is_dir():
                    copy.mkdir(mode=0o755)
                    waiting.append(source)
                elif entry.is_file() and entry.stat().st_size <= room:
                    room -= entry.stat().st_size
                    shutil.copyfile(source, copy)
                    copy.chmod(0o644)
            except OSError:
                continue


def give(folder: Path, user: User) -> None:
    """Makes the container's user the owner of a folder of ours; we are root and can still remove it."""
    os.chown(folder, user.uid, user.gid)
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(base, name), user.uid, user.gid, follow_symlinks=False)

"""What a container sees of this machine: the run's own folder to write, the script's to read, little else.

Every folder is mounted at its own path, so that a job, a traceback and a link mean the same in and outside.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docker.types import Mount

# A lab that runs as root lets the container run as this user: nobody's, on any machine.
NOBODY = 61_337
COPY_BYTES = 64 << 20
COPY_ENTRIES = 2_000
# Folders that are never shown whole, however short the path to the script is.
_WIDE = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt"),
        *("/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/Users"),
    }
)


@dataclass(frozen=True, kw_only=True)
class User:
    """Who runs inside. ``owns`` says that it is another user than ours, who is given the run's folder."""

    uid: int
    gid: int
    owns: bool = False

    @property
    def text(self) -> str:
        return f"{self.uid}:{self.gid}"


def user_for(security: Sequence[str]) -> User:
    """The user inside, from what the daemon says of its security options.

    It is the caller, who can then read and remove what the run wrote. A rootless daemon maps its root to the
    caller; for a caller that is root it is an unprivileged user.
    """
    if any("name=rootless" in option for option in security):
        return User(uid=0, gid=0)
    if os.getuid() == 0:
        return User(uid=NOBODY, gid=NOBODY, owns=True)
    return User(uid=os.getuid(), gid=os.getgid())


def is_wide(folder: Path) -> bool:
    """Whether a folder holds far more than a script's own files: a home, a part of the system."""
    own = Path.home()
    return (
        folder == Path(folder.anchor)
        or str(folder) in _WIDE
        or folder in (own, *own.parents, Path(tempfile.gettempdir()))
        or folder.parent == Path("/home")
    )


def shown(paths: Sequence[Path]) -> list[Path]:
    """The folders, or single files, that are shown for these: a file's folder, unless that is too wide.

    Both the path as it was written and the one without links, as the child resolves it.
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
    """The homes that lie on the way to these places.

    The image may have such a folder and close it to the user inside (``/root`` is root's alone), who then
    could not come to what is mounted below. So an open folder without anything is put in its place.
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
    """Read-only mounts, with copies of what another user may not read where the container is another user."""

    def __init__(self, folder: Path, user: User, python: str = "") -> None:
        """``python`` is the image's interpreter: what it lies in is never hidden."""
        self._folder = folder
        self._user = user
        self._python = Path(python)
        self._copies: dict[Path, Path] = {}

    def mounts(self, read: Sequence[Path], write: Path) -> list[Mount]:
        """The mounts of one run: ``read`` only to look at, ``write`` its own."""
        shown_too = [place for place in read if place != write]
        sources = {**self._open_homes([*shown_too, write]), **{p: self._source(p) for p in shown_too}}
        for place in (*sources, write):
            for outer, source in sources.items():
                # A mount point below a copy has to be there: nothing can be made in what is read-only.
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
        """Homes on the way to the places, and an open folder for each: a tmpfs takes the image's mode."""
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
        """A mount point below a folder, whose outer folders anybody may enter, whatever our umask is."""
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
    """The folder and what lies in it, which is where permissions usually tell; or the file."""
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
    """A copy that everybody may read, of at most so many files and bytes: the nearest first, no caches.

    ``without`` are folders that are left out: the workspace may lie in the user's folder.
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
    """Make a folder of ours the container's user's: it is removed by us, who are root."""
    os.chown(folder, user.uid, user.gid)
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(base, name), user.uid, user.gid, follow_symlinks=False)

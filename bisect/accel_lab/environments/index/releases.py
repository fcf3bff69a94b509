"""Orders versions, parses wheel names, matches wheels to this machine, and groups them by release."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from accel_lab.core.machine.environment import Release

#: The first release with torch.compile, where the line starts.
FIRST = "2.0"
#: Maps a minor version of Python to the first torch whose compiler runs on it. Wheels came earlier: torch 2.0
#: has one for Python 3.11, where torch.compile raises (check_if_dynamo_supported in
#: torch/_dynamo/eval_frame.py).
_COMPILES_SINCE = {11: (2, 1), 12: (2, 4), 13: (2, 6), 14: (2, 10)}

#: Longest version text; Python refuses to parse integers with very many digits.
_LONGEST = 200
_FREE_THREADED = re.compile(r"cp\d+t")


def parse_version(text: str) -> Version | None:
    """Parses a version; returns None if it is invalid."""
    try:
        return Version(text) if len(text) <= _LONGEST else None
    except InvalidVersion:
        return None


def order(text: str) -> Version:
    """Returns a sort key for versions; invalid ones sort first."""
    return parse_version(text) or Version("0.dev0")


def public(version: str) -> str:
    """Strips the local part of a version: ``2.13.0+cpu`` becomes ``2.13.0``."""
    return version.partition("+")[0]


def local_part(version: str) -> str:
    return version.partition("+")[2]


def parts(version: str) -> tuple[int, ...]:
    """Returns the release's numbers as written: ``2.10`` gives (2, 10), ``2.10.0rc1`` gives (2, 10, 0)."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version[:_LONGEST])
    return tuple(int(part) for part in match[1].split(".")) if match else ()


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """One wheel of an index. ``source`` names the index or folder, for the user."""

    filename: str
    version: str
    pythons: tuple[str, ...]
    platforms: tuple[str, ...]
    uploaded: str = ""
    size_bytes: int = 0
    sha256: str = ""
    yanked: bool = False
    source: str = ""

    @property
    def fits_machine(self) -> bool:
        return any(fits(tag) for tag in self.platforms)


def read_wheel_name(filename: str, package: str) -> Wheel | None:
    """Parses a wheel's file name; returns None for other files and other packages."""
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    if name != canonicalize_name(package):
        return None
    # A free-threaded Python has its own ABI, and a normal Python cannot load its wheels.
    usual = {tag.interpreter for tag in tags if not _FREE_THREADED.fullmatch(tag.abi)}
    return Wheel(
        filename=filename,
        version=str(version),
        pythons=tuple(sorted(tag for tag in usual if tag.startswith(("cp", "py")))),
        platforms=tuple(sorted({tag.platform for tag in tags})),
    )


def fits(tag: str, system: str = sys.platform, machine: str = "") -> bool:
    """Whether this machine can load wheels with a platform tag."""
    machine = machine or platform.machine().lower()
    if tag == "any":
        return True
    if system.startswith("linux"):
        return tag.startswith(("manylinux", "linux_")) and tag.endswith(f"_{machine}")
    if system == "darwin":
        return tag.startswith("macosx") and tag.endswith((f"_{machine}", "_universal2"))
    return False


def python_tag(version: str) -> str:
    """Returns ``cp311`` for ``3.11`` or ``3.11.7``."""
    return "cp" + "".join(version.split(".")[:2])


def compiles_on(version: str, python: str) -> bool:
    """Whether torch.compile of that release runs on a Python (``3.11``); a wheel alone does not imply it."""
    return parts(version)[:2] >= _COMPILES_SINCE.get(parts(python)[1], (0, 0))


def choose_wheel(wheels: Iterable[Wheel], python: str, *, gpu: bool) -> Wheel | None:
    """Chooses one release's wheel for this machine and Python; a CPU build if there is no GPU.

    Ties go to a local wheel, then to the smallest.
    """
    tags = (python_tag(python), "py3")
    fitting = [w for w in wheels if w.fits_machine and any(tag in w.pythons for tag in tags)]
    if not fitting:
        return None

    def rank(wheel: Wheel) -> tuple[bool, bool, bool, int]:
        is_cpu = local_part(wheel.version).startswith("cpu")
        return (
            wheel.yanked,
            is_cpu if gpu else not is_cpu,
            wheel.source.startswith("http"),
            wheel.size_bytes,
        )

    return min(fitting, key=rank)


def releases_of(wheels: Sequence[Wheel], python: str = "", *, gpu: bool = False) -> list[Release]:
    """Groups the wheels for this machine by release, oldest first, from :data:`FIRST` on.

    ``python`` is the line's Python; its wheel gives size and digest.
    """
    found: dict[Version, list[Wheel]] = {}
    for wheel in wheels:
        version = parse_version(public(wheel.version))
        if version is not None and wheel.fits_machine and version >= Version(f"{FIRST}.dev0"):
            found.setdefault(version, []).append(wheel)
    releases = []
    for version, group in sorted(found.items()):
        chosen = choose_wheel(group, python, gpu=gpu) if python else None
        dates = [wheel.uploaded[:10] for wheel in group if wheel.uploaded]
        releases.append(
            Release(
                version=public(group[0].version),
                uploaded=min(dates) if dates else "",
                pythons=tuple(sorted({tag for wheel in group for tag in wheel.pythons}, key=_tag_order)),
                size_bytes=chosen.size_bytes if chosen else 0,
                sha256=chosen.sha256 if chosen else "",
                prerelease=version.is_prerelease,
                yanked=all(wheel.yanked for wheel in group),
            )
        )
    return releases


def _tag_order(tag: str) -> tuple[str, int, int]:
    digits = tag[2:]
    return (tag[:2], int(digits[:1] or 0), int(digits[1:] or 0)) if digits.isdigit() else (tag, 0, 0)

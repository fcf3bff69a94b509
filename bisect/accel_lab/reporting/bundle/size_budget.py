"""Chooses what goes into a bundle of limited size; the least useful files are left out and named."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from accel_lab.core.errors import LabError

from .limits import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, name_problem

#: Bytes that a zip spends on an entry besides its name (twice) and data: local and central header.
_HEADERS = 30 + 46
#: A repetitive log deflates a thousandfold, like a zip bomb. Entries above this ratio, which is well below
#: the refused one, are stored uncompressed.
STORE_RATIO = 50
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|\ud800-\udfff]")


def entry_name(name: str) -> str:
    """Returns the name as a bundle may have it: unsafe characters become ``_``."""
    return _UNSAFE.sub("_", name)[:400] or "_"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file of the bundle. ``rank`` 0 is never dropped; the highest rank is dropped first."""

    name: str
    data: bytes
    rank: int = 0
    executable: bool = False


@dataclass(frozen=True, kw_only=True)
class Dropped:
    """A file that is not in the bundle, or not whole, and why."""

    name: str
    size: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Packed:
    """An entry as it will be in the zip: deflated, or stored if deflating would look like a zip bomb."""

    entry: Entry
    size: int
    stored: bool


def pack(entry: Entry) -> Packed:
    """Returns the entry with its size in the zip, and whether it is stored or deflated."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = len(machine.compress(entry.data)) + len(machine.flush())
    stored = deflated >= len(entry.data) or len(entry.data) > STORE_RATIO * deflated
    size = len(entry.data) if stored else deflated
    return Packed(
        entry=entry, size=size + _HEADERS + 2 * len(entry.name.encode(errors="replace")), stored=stored
    )


def choose(entries: Iterable[Entry], limit: int) -> tuple[list[Packed], list[Dropped]]:
    """Returns the entries that fit into ``limit`` bytes, ordered by name, and those that do not.

    Entries go in by rank; among equals the smaller first, so that one huge log displaces nothing else.
    Entries that exceed :mod:`.limits` are left out as well, because they would get the whole bundle refused.
    Raises :class:`LabError` if an entry of rank 0 does not fit.
    """
    kept: list[Packed] = []
    dropped: list[Dropped] = []
    names, total, unpacked = _Names(), 0, 0
    for packed in sorted(map(pack, entries), key=lambda p: (p.entry.rank, p.size, p.entry.name)):
        entry = packed.entry
        reason = names.problem(entry.name) or _too_much(len(entry.data), unpacked, len(kept))
        if not reason and total + packed.size > limit:
            reason = f"over the limit of {limit:,} bytes"
        if not reason:
            kept.append(packed)
            names.take(entry.name)
            total += packed.size
            unpacked += len(entry.data)
        elif entry.rank == 0:
            raise LabError(
                f"the bundle cannot be made: {entry.name} ({len(entry.data):,} bytes) does not fit into "
                f"{limit:,} bytes ({reason}); raise the limit or make the script smaller"
            )
        else:
            dropped.append(Dropped(name=entry.name, size=len(entry.data), reason=reason))
    return sorted(kept, key=lambda p: p.entry.name), sorted(dropped, key=lambda d: d.name)


def _too_much(size: int, unpacked: int, count: int) -> str:
    """Returns why one more file of ``size`` bytes would be refused; empty if it would not."""
    if size > MAX_FILE_BYTES:
        return f"a bundle holds no file of more than {MAX_FILE_BYTES:,} bytes"
    if unpacked + size > MAX_TOTAL_BYTES:
        return f"a bundle holds no more than {MAX_TOTAL_BYTES:,} bytes unpacked"
    if count + 2 > MAX_FILES:  # the manifest is a file too
        return f"a bundle holds no more than {MAX_FILES:,} files"
    return ""


class _Names:
    """The names in use, as a case-insensitive file system sees them."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()

    def take(self, name: str) -> None:
        self._files.add(name.casefold())
        self._folders.update(_folders(name))

    def problem(self, name: str) -> str:
        """Returns why this name conflicts with the others or the rules; empty if it does not."""
        if why := name_problem(name):
            return f"a name that a bundle cannot hold: {why}"
        if name.casefold() in self._files:
            return "another file has this name, but for upper and lower case"
        if name.casefold() in self._folders or any(one in self._files for one in _folders(name)):
            return "a file and a folder have this name"
        return ""


def _folders(name: str) -> list[str]:
    parts = name.casefold().split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]

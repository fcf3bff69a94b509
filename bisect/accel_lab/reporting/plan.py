"""What goes into a bundle when not everything fits: the least useful goes first, and is named."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from accel_lab.core.errors import LabError

#: Bytes that a zip spends on an entry beside its name (twice) and its data: local and central header.
_HEADERS = 30 + 46
#: A repetitive log deflates a thousandfold, as a bomb does: such an entry is stored as it is.
MAX_RATIO = 50
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:*?\"<>|\ud800-\udfff]")
#: A name that every file system takes; an entry with another one is refused when a bundle is checked.
SAFE_NAME = re.compile(r"[^\x00-\x1f\x7f\\:*?\"<>|]{1,400}\Z")


def entry_name(name: str) -> str:
    """The name as a bundle may have it: what SAFE_NAME and UTF-8 have no place for becomes ``_``."""
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
    """An entry as it will lie in the zip: deflated, or stored where that would look like a bomb."""

    entry: Entry
    size: int
    stored: bool


def pack(entry: Entry) -> Packed:
    """How much an entry takes in the zip, and whether it is to be deflated."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = len(machine.compress(entry.data)) + len(machine.flush())
    stored = deflated >= len(entry.data) or len(entry.data) > MAX_RATIO * deflated
    size = len(entry.data) if stored else deflated
    return Packed(entry=entry, size=size + _HEADERS + 2 * len(entry.name.encode()), stored=stored)


def choose(entries: Iterable[Entry], limit: int) -> tuple[list[Packed], list[Dropped]]:
    """The entries that fit into ``limit`` bytes, in the order of their names, and those that do not.

    Entries go in by rank; among equals the smaller first, so that one huge log costs nothing else.
    """
    kept: list[Packed] = []
    dropped: list[Dropped] = []
    total = 0
    for packed in _by_use([pack(entry) for entry in entries]):
        entry = packed.entry
        if total + packed.size <= limit:
            kept.append(packed)
            total += packed.size
        elif entry.rank == 0:
            raise LabError(
                f"the bundle cannot be made: {entry.name} ({len(entry.data):,} bytes) does not fit into "
                f"{limit:,} bytes; raise the limit or make the script smaller"
            )
        else:
            dropped.append(
                Dropped(name=entry.name, size=len(entry.data), reason=f"over the limit of {limit:,} bytes")
            )
    return sorted(kept, key=lambda p: p.entry.name), sorted(dropped, key=lambda d: d.name)


def _by_use(packed: Sequence[Packed]) -> list[Packed]:
    return sorted(packed, key=lambda p: (p.entry.rank, p.size, p.entry.name))

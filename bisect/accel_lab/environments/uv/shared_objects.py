"""Reads the libraries and undefined symbols, with versions, that a shared object needs.

It supports only 64-bit little-endian ELF, which all wheels of the line contain. It exists because it reads
the needed sections of a file of a gigabyte in a tenth of a second.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_VERNEED = struct.Struct("<HHIII")
_VERNAUX = struct.Struct("<IHHII")
_DT_NEEDED, _DT_SONAME = 1, 14
_STB_WEAK, _STT_OBJECT, _STT_TLS = 2, 1, 6


class NotElf(Exception):
    """The file is not a readable shared object."""


@dataclass(frozen=True, kw_only=True, order=True)
class Symbol:
    """An undefined symbol; ``library`` and ``version`` are empty if it is unversioned."""

    name: str
    library: str = ""
    version: str = ""
    is_data: bool = False


@dataclass(frozen=True, kw_only=True)
class SharedObject:
    """What the loader must find before it can load a file."""

    soname: str
    needed: tuple[str, ...]
    undefined: tuple[Symbol, ...]


def read_shared_object(path: Path) -> SharedObject:
    """Reads what a shared object needs, without weak symbols. Raises :class:`NotElf`."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data)
    except (OSError, ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotElf(f"{path}: {error}") from None


def _read(data: mmap.mmap) -> SharedObject:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, offset + size * number) for number in range(count)]

    def body(kind: int) -> tuple[bytes, int]:
        """Returns the first section of a kind, and the number of the section linked to it (its strings)."""
        for section in sections:
            if section[1] == kind:
                return data[section[4] : section[4] + section[5]], section[6]
        return b"", 0

    def strings(number: int) -> bytes:
        return data[sections[number][4] : sections[number][4] + sections[number][5]] if number else b""

    dynamic, link = body(6)  # SHT_DYNAMIC
    names = strings(link)
    needed, soname = [], ""
    for tag, value in _DYNAMIC.iter_unpack(dynamic[: len(dynamic) // 16 * 16]):
        if tag == _DT_NEEDED:
            needed.append(_text(names, value))
        elif tag == _DT_SONAME:
            soname = _text(names, value)
        elif tag == 0:
            break
    versions = _versions(*body(0x6FFFFFFE), strings)  # SHT_GNU_verneed
    symbols, link = body(11)  # SHT_DYNSYM
    which, _ = body(0x6FFFFFFF)  # SHT_GNU_versym
    names = strings(link)
    undefined = set()
    for number, (name, info, _, section, _, _) in enumerate(_SYMBOL.iter_unpack(symbols)):
        if section != 0 or number == 0 or info >> 4 == _STB_WEAK:
            continue
        asked = struct.unpack_from("<H", which, number * 2)[0] & 0x7FFF if which else 0
        library, version = versions.get(asked, ("", ""))
        text = _text(names, name)
        is_data = info & 0xF in (_STT_OBJECT, _STT_TLS)
        undefined.add(Symbol(name=text, library=library, version=version, is_data=is_data))
    return SharedObject(soname=soname, needed=tuple(needed), undefined=tuple(sorted(undefined)))


def _versions(data: bytes, link: int, strings: object) -> dict[int, tuple[str, str]]:
    """Maps version numbers to the library that defines the version, and the version's name."""
    found: dict[int, tuple[str, str]] = {}
    if not data or not callable(strings):
        return found
    names, place = strings(link), 0
    while True:
        _, count, file, first, following = _VERNEED.unpack_from(data, place)
        at = place + first
        for _ in range(count):
            _, _, number, name, after = _VERNAUX.unpack_from(data, at)
            found[number & 0x7FFF] = (_text(names, file), _text(names, name))
            at += after
        if not following:
            return found
        place += following


def _text(names: bytes, start: int) -> str:
    return names[start : names.index(b"\0", start)].decode()

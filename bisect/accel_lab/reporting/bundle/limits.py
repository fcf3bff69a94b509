"""Limits of a bundle: the writer keeps to them, and ``verify`` refuses what exceeds them."""

from __future__ import annotations

import re

#: Slightly below GitHub's limit for an attachment.
LIMIT_BYTES = 25_000_000
#: Maximum entries of the zip, manifest included.
MAX_FILES = 5_000
#: Maximum unpacked bytes of all entries, and of one.
MAX_TOTAL_BYTES = 400_000_000
MAX_FILE_BYTES = 100_000_000
MAX_MANIFEST_BYTES = 8_000_000
#: Highest ratio of unpacked to packed size, far above that of deflated text; not checked below the floor.
MAX_RATIO = 200
RATIO_FLOOR_BYTES = 100_000
#: A name that every file system accepts, in characters and in bytes.
_SAFE_NAME = re.compile(r"[^\x00-\x1f\x7f\\:*?\"<>|]{1,400}\Z")
_MAX_PART_BYTES = 255
_DEPTH = 60


def name_problem(name: str) -> str:
    """Returns why an entry cannot have this name, in a few words; empty if it can."""
    if "\\" in name:
        return "backslash in the entry name"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "absolute entry name"
    parts = name.split("/")
    if any(part in ("..", ".", "") for part in parts):
        return "the entry name leads elsewhere or to a folder"
    if not _SAFE_NAME.match(name) or any(0xD800 <= ord(c) <= 0xDFFF for c in name):
        return "unsafe entry name"
    if (
        len(parts) > _DEPTH
        or max(len(part.encode("utf-8", "backslashreplace")) for part in parts) > _MAX_PART_BYTES
    ):
        return "entry name too long"
    return ""


def shown_name(name: str) -> str:
    """Returns a name with unprintable characters escaped."""
    return name.encode("unicode_escape").decode()[:400]

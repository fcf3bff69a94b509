"""What a bundle may hold at most: the writer keeps to it, and ``verify`` refuses what does not."""

from __future__ import annotations

import re

#: What GitHub takes as an attachment, a little less.
LIMIT_BYTES = 25_000_000
#: Entries of the zip, the manifest among them.
MAX_FILES = 5_000
#: Bytes of all entries, and of one, unpacked.
MAX_TOTAL_BYTES = 400_000_000
MAX_FILE_BYTES = 100_000_000
MAX_MANIFEST_BYTES = 8_000_000
#: Deflated texts come nowhere near this many times their packed size; below the floor a ratio says nothing.
MAX_RATIO = 200
RATIO_FLOOR_BYTES = 100_000
#: A name that every file system takes, in characters and in bytes.
_SAFE_NAME = re.compile(r"[^\x00-\x1f\x7f\\:*?\"<>|]{1,400}\Z")
_MAX_PART_BYTES = 255
_DEPTH = 60


def name_problem(name: str) -> str:
    """Why an entry cannot have this name, in a few words; empty if it can."""
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
    """A name with what no reader can be shown escaped."""
    return name.encode("unicode_escape").decode()[:400]

"""Lists words left in a bundle that look like a name, a machine or a key, for review by a person."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from accel_lab.core.private import COMMON, GENERIC, PLACEHOLDER, is_public

#: Minimum bits per character of a random-looking word; plain words have fewer.
_BITS = 3.2
#: A longer run of characters is data, not a key.
_LONGEST = 200
#: Maximum characters read of one file, and maximum words listed.
_FILE_LIMIT, _MOST = 2_000_000, 2_000
_RUN = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+_=-]{16,}")
_HEX = re.compile(r"[0-9a-f]{32,64}\Z|[0-9A-F]{32,64}\Z")
#: Names of Inductor's cached files, and names mangled by a C++ compiler.
_CACHED = re.compile(
    r"[a-z2-7]{50,54}\Z|_Z|__?[a-z]+_Z|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z"
)
_HASHED = re.compile(
    r"(?:sha\d*|hash|md5|digest|commit|git|revision|fingerprint|checksum|cache|AOT ID)[^\n]{0,60}\Z", re.I
)
_CODE = re.compile(r"[A-Za-z]+\d{0,4}[a-z]?|\d+[a-z]{0,3}|0x[0-9a-f]+")

_PATH = re.compile(
    r"(?<![\w.:/~-])/(?:data\d?|mnt|work|works|proj|projects?|nfs\d?|lustre|gpfs|export|storage|shared?|u|vol\d?"
    r"|volumes|fsx|efs|media|srv|groups?|teams?|scratch\d?)/(?P<s>[A-Za-z][\w.-]{1,40})(?=/)",
    re.I,
)
_SAID = re.compile(
    r"\b(?:author|written by|copyright(?: \(c\))?(?: \d{4})?|maintainer|signed-off-by|reviewed-by|reported by"
    r"|contact|thanks to|asked by|todo|fixme|xxx)[ \t]{0,3}[:(@]?[ \t]{0,3}@?"
    r"(?P<s>(?-i:[A-Z][\w'.-]{1,30}(?: [A-Z][\w'.-]{1,30}){1,2})"
    r"|(?<=@)[\w-]{3,40}|(?<=\()[\w.-]{3,40}(?=\)))",
    re.I,
)
_KEYED = re.compile(
    r"\b(?:user(?:_?name)?|owner|login|account|team|org(?:ani[sz]ation)?|entity|project|customer|tenant|company)"
    r"[\"']?[ \t]{0,3}[=:]"
    r"[ \t]{0,3}[\"'](?P<s>[A-Za-z][\w.-]{2,40})[\"']",
    re.I,
)
_MACHINE = re.compile(
    r"\b(?P<s>(?:node|gpu|dgx|hgx|login|worker|compute|box|rack|srv|server|db|vm|ws|build|pod|ip|cluster)"
    r"(?:-[a-z]{1,8})?(?:-\d{1,4}|\d{2,4})(?:-\d{1,4}){0,4}[a-z]?)\b(?![\w.(]*\()"
)
_HOST_KEY = re.compile(
    r"\b(?:host(?:name)?|server|nodelist|cluster)[\"']?[ \t]{0,3}[=:]"
    r"[ \t]{0,3}[\"'](?P<s>[A-Za-z][\w.-]{2,80})[\"']",
    re.I,
)
_URL = re.compile(r"://(?:[^\s/@\"'<>]{0,200}@)?(?P<s>[A-Za-z0-9][A-Za-z0-9.-]{1,200})")
_QUAD = re.compile(r"(?<![\w.+=-])(?P<s>\d{1,3}(?:\.\d{1,3}){3})(?![\w.+-])")
_SHARE = re.compile(r"(?<![\\\w])\\\\(?P<s>[A-Za-z][\w-]{2,40})\\\w")
_PHONE = re.compile(r"(?<![\w+])(?P<s>\+\d{1,3}[ -]\(?\d{2,4}\)?(?:[ -]\d{2,8}){1,4})(?!\w)")
_HERE = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "255.255.255.255"})
_PATTERNS = (
    ("name", _PATH),
    ("name", _SAID),
    ("name", _KEYED),
    ("host", _MACHINE),
    ("host", _HOST_KEY),
    ("host", _URL),
    ("host", _QUAD),
    ("host", _SHARE),
    ("number", _PHONE),
)


@dataclass(frozen=True, kw_only=True)
class Left:
    """A word left in a bundle.

    ``line`` counts from 1; 0 is the file's own name. ``places`` is its number of occurrences.
    """

    file: str
    line: int
    word: str
    kind: str
    context: str
    places: int = 1


def left_in(texts: Mapping[str, str], names: Iterable[str] = ()) -> list[Left]:
    """Returns the words left in the texts, each with its first place; ``names`` are searched for too."""
    found: dict[str, Left] = {}
    for file, text in texts.items():
        for left in (*_own(file, file, names, 0), *_found(file, text[:_FILE_LIMIT], names)):
            seen = found.get(left.word)
            if seen is not None:
                found[left.word] = replace(seen, places=seen.places + 1)
            elif len(found) < _MOST:
                found[left.word] = left
    order = {"word": 0, "key": 1, "name": 2, "host": 3, "number": 4}
    return sorted(found.values(), key=lambda left: (order[left.kind], left.file, left.line, left.word))


def count_words(count: int) -> str:
    """Says how many words were left."""
    if count == 0:
        return "no word that looks like a name or a key was left"
    return (
        "1 word that looks like a name or a key was left"
        if count == 1
        else f"{count} words that look like names or keys were left"
    )


def _found(file: str, text: str, names: Iterable[str]) -> Iterator[Left]:
    for number, line in enumerate(text.split("\n"), 1):
        for at in range(0, len(line), 2_000):
            part = line[at : at + 2_200]
            yield from _own(file, part, names, number)
            yield from _in_line(file, part, number)


def _in_line(file: str, line: str, number: int) -> Iterator[Left]:
    for match in _RUN.finditer(line):
        if _is_key(match.group(), line[: match.start()]):
            yield _left(file, number, match.group(), "key", line, match.start())
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(line):
            word = match.group("s").strip(".")
            if _is_telling(word, kind):
                yield _left(file, number, word, kind, line, match.start("s"))


def _own(file: str, line: str, names: Iterable[str], number: int) -> Iterator[Left]:
    """Yields words of ``names`` that remain, as names in the code or in a file's name."""
    lowered = line.lower()
    for name in names:
        at = lowered.find(name.lower())
        if at >= 0:
            yield _left(file, number, line[at : at + len(name)], "word", line, at)


def _left(file: str, number: int, word: str, kind: str, line: str, at: int) -> Left:
    start, end = max(at - 30, 0), at + len(word) + 30
    context = ("..." if start else "") + line[start:end].strip() + ("..." if end < len(line) else "")
    return Left(file=file, line=number, word=word, kind=kind, context=context)


def _is_telling(word: str, kind: str) -> bool:
    lowered = word.lower()
    if PLACEHOLDER.match(word) or lowered in GENERIC or lowered in COMMON:
        return False
    if kind == "host":
        return lowered not in _HERE and not is_public(lowered)
    return not word.startswith(("REDACTED", "user"))


def _is_key(word: str, before: str) -> bool:
    """Whether a word looks random, and neither like a name in code nor like a hash of something."""
    if len(word) > _LONGEST or _CACHED.match(word) or "REDACTED_" in word:
        return False
    if _HEX.match(word):
        return not _HASHED.search(before[-100:])
    return any(_is_random(part) for part in re.split(r"[_=-]+", word))


def _is_random(part: str) -> bool:
    if (
        len(part) < 14
        or _CODE.fullmatch(part)
        or sum(map(str.isdigit, part)) < 2
        or not any(map(str.isalpha, part))
    ):
        return False
    sorts = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in part]
    turns = sum(a != b for a, b in itertools.pairwise(sorts))
    return turns >= len(part) // 4 and _bits(part) >= _BITS


def _bits(word: str) -> float:
    """Returns the Shannon entropy of a word's characters, in bits per character."""
    return -sum(n / len(word) * math.log2(n / len(word)) for n in Counter(word).values())

"""Finds PEM and PGP key blocks, complete or truncated, also in comments, in quotes, or on one line."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

_WHAT = r"[A-Z0-9 ]{0,40}(?:PRIVATE KEY(?: BLOCK)?|PGP MESSAGE)"
_BEGIN = re.compile(rf"-----BEGIN {_WHAT}-----|---- BEGIN {_WHAT} ----")
_END = re.compile(rf"-----END {_WHAT}-----|---- END {_WHAT} ----")
#: A line of a truncated block: base64, line ends in any spelling, comment signs, quotes, headers.
_BODY = re.compile(
    r"(?:[ \t]{0,20}(?:#|//|\*|>|;|--)?[ \t]{0,20}[\"'+]{0,3}"
    r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash)"
    r":[^\n\\]{0,100}|[A-Za-z0-9+/=]{1,2000})?[\"',+]{0,3}[ \t]{0,20}(?:\\r)?(?:\\n|\r?\n|\Z|(?=[\"'])))"
)
#: The greatest length of a block, in characters.
LIMIT = 40_000
_PUTTY = re.compile(r"(?P<s>PuTTY-User-Key-File-\d: [\s\S]{0,8000}?Private-MAC: [0-9a-f]{40,64})")


def key_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yields the (start, end) of private keys in a text; a truncated key ends at its last matching line."""
    begins = [match.span() for match in _BEGIN.finditer(text)] if "BEGIN " in text else []
    ends = [match.end() for match in _END.finditer(text)] if begins else []
    for number, (start, body) in enumerate(begins):
        most = min([body + LIMIT, *(place for place, _ in begins[number + 1 : number + 2])])
        place = bisect.bisect_left(ends, body)
        if place < len(ends) and ends[place] <= most:
            yield start, ends[place]
            continue
        at = body
        while (line := _BODY.match(text, at, most)) and line.end() > at:
            at = line.end()
        yield start, body + len(text[body:at].rstrip())
    if "PuTTY-User-Key-File-" in text:
        yield from (match.span() for match in _PUTTY.finditer(text))

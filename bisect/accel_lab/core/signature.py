"""Failure signatures: decide whether two failures are the same.

A signature has the exception's type, its normalized message and the innermost frames by function name.
Normalization first removes private parts (tokens, passwords, people, hosts), then accidental ones (numbers,
addresses, paths, generated names). Two failures are the same if kind, type and normalized message agree.
Frames are compared only for exceptions and exits without a message, since the same fault shows other frames
on other rungs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from .record import Record, as_json
from .text import shorten

_Rules = tuple[tuple[re.Pattern[str], str], ...]


def _compiled(rules: Iterable[tuple[str, str]]) -> _Rules:
    return tuple((re.compile(pattern), text) for pattern, text in rules)


#: Removed from messages for readers too.
_ACCIDENTAL = _compiled(
    (
        (r"\x1b\[[0-9;]*m", ""),
        (r"0x[0-9a-fA-F]+", "<addr>"),
        (r"(?:[A-Za-z]:|[\w.+@~-]{1,64})?(?:/[\w.+@~ -]{1,255}){1,64}/([\w.+-]+)", r"<path>/\1"),
        (r"\b[a-z0-9]{40,60}\b", "<hash>"),
        (r"\bc[a-z0-9]{50,52}\b", "<hash>"),
    )
)
#: Removed for comparison only.
_NUMBERS = _compiled(
    (
        # torch cuts what a path shares with its own, letter by letter: "ork/repro.py:3".
        (r"(?<![\w./<>-])[\w.+@~-]{1,64}/([\w.+-]{1,255}\.py:)", r"<path>/\1"),
        (
            r"\b(buf|arg|op|tmp|primals_|tangents_|getitem_|s|u|ks|xindex|x|L__self__|__compiled_fn_|resume_in_|graph_|kernel_?)\d+\b",
            r"\1<n>",
        ),
        (r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?", "<n>"),
        (r"\b(?:nan|inf)\b", "<n>"),
        (r"(?:<n>(?:, ?)?){2,}", "<n>"),
        # The lab chooses the backend, a different one for each rung.
        (r"\bbackend='[^'\n]{1,200}' raised:", "backend raised:"),
        # The place of the stack overflow differs between processes.
        (r"\b(maximum recursion depth exceeded)(?: (?:in|while) .*)?", r"\1"),
    )
)
_SPACE = _compiled(((r"\s+", " "),))
_RULES = _ACCIDENTAL + _NUMBERS + _SPACE

#: Advice that torch appends to messages; it depends on release and settings.
_ADVICE = re.compile(
    r"(?<!\s)\s*(?:Set TORCHDYNAMO_VERBOSE=1|You can suppress this exception|Developer debug context:"
    r"|For more details about this graph break|To suppress this warning|from user code:|While executing )",
)


#: Only this many characters of a message are processed; far fewer are kept.
_LONGEST = 50_000
#: The greatest length of a message as compared and as shown, in characters.
MOST = 400


def normalise(message: str, *, masked: bool = False) -> str:
    """Returns the message without private parts, numbers, addresses, paths and generated names, cut at 400.

    ``masked``: the private parts were already removed.
    """
    return _tidied(message, _RULES, masked=masked)[:MOST]


def legible(message: str) -> str:
    """Returns the message for a reader, without private parts: one line, at most 400 characters."""
    return shorten(_tidied(message, _ACCIDENTAL + _SPACE), MOST)


def _tidied(message: str, rules: _Rules, *, masked: bool = False) -> str:
    """Cuts, masks and then rewrites a message; the order matters.

    A rule that removes numbers first would leave half a token, which no privacy rule recognizes.
    """
    from .private import mask  # imported late: it takes some milliseconds

    message = message[:_LONGEST]
    cut = _ADVICE.search(message)
    if cut is not None and cut.start() > 0:
        message = message[: cut.start()]
    return _rewritten(message if masked else mask(message), rules)


def unnumbered(word: str) -> str:
    """Returns how a known private word looks in a normalized message."""
    return _rewritten(word, _RULES)


def _rewritten(message: str, rules: _Rules) -> str:
    for pattern, text in rules:
        message = pattern.sub(text, message)
    return message.strip()


@dataclass(frozen=True, kw_only=True)
class Signature(Record):
    """The signature of a failure.

    ``kind``: exception, exit, signal, memory_fault, timeout, memory, output, processes, disk, check, regex or
    values. ``said`` is the message for a reader, with numbers; it may differ between runs of one failure.
    ``memory_fault`` is a crash after an invalid memory access; its ``type``, the signal, depends on the heap
    layout and is not compared.
    """

    kind: str
    type: str = ""
    message: str = ""
    frames: tuple[str, ...] = ()
    said: str = field(default="", compare=False, metadata=as_json(sparse=True))

    def same_as(self, other: Signature | None) -> bool:
        """Whether both describe the same failure."""
        if other is None or self.kind != other.kind:
            return False
        if self.kind == "memory_fault":
            return True
        if self.type != other.type:
            return False
        if self.message or other.message:
            return self.message == other.message
        if self.kind in ("timeout", "signal"):
            return True  # the innermost frame of a hang or a crash varies with the rung
        return not self.frames or not other.frames or self.frames[-1] == other.frames[-1]

    @property
    def line(self) -> str:
        """The signature as one line, for tables."""
        head, message = self.type or self.kind, self.said or self.message
        return f"{head}: {message}" if message else head

"""Failure signatures: what makes two failures the same one.

A signature is the exception's type, its message with everything private (tokens, passwords, people, hosts)
and everything accidental (numbers, addresses, paths, generated names) taken out, in this order, and the
innermost frames by function name. Two failures are the same when kind and type agree and the normalised
messages agree; frames break ties only for exceptions and exits without a message: one fault surfaces
through other frames on other rungs.
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


#: What no reader wants either.
_ACCIDENTAL = _compiled(
    (
        (r"\x1b\[[0-9;]*m", ""),
        (r"0x[0-9a-fA-F]+", "<addr>"),
        (r"(?:[A-Za-z]:)?(?:/[\w.+@~ -]{1,255}){1,64}/([\w.+-]+)", r"<path>/\1"),
        (r"\b[a-z0-9]{40,60}\b", "<hash>"),
        (r"\bc[a-z0-9]{50,52}\b", "<hash>"),
    )
)
#: What a reader wants and a comparison does not.
_NUMBERS = _compiled(
    (
        (
            r"\b(buf|arg|op|tmp|primals_|tangents_|getitem_|s|u|ks|xindex|x|L__self__|__compiled_fn_|resume_in_|graph_|kernel_?)\d+\b",
            r"\1<n>",
        ),
        (r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?", "<n>"),
        (r"\b(?:nan|inf)\b", "<n>"),
        (r"(?:<n>(?:, ?)?){2,}", "<n>"),
        # Which backend is handed to torch is the lab's choice, rung by rung.
        (r"\bbackend='[^'\n]{1,200}' raised:", "backend raised:"),
        # Where the stack happens to end differs from process to process.
        (r"\b(maximum recursion depth exceeded)(?: (?:in|while) .*)?", r"\1"),
    )
)
_SPACE = _compiled(((r"\s+", " "),))
_RULES = _ACCIDENTAL + _NUMBERS + _SPACE

#: Advice that torch appends to messages; it changes with the release and with the settings.
_ADVICE = re.compile(
    r"(?<!\s)\s*(?:Set TORCHDYNAMO_VERBOSE=1|You can suppress this exception|Developer debug context:"
    r"|For more details about this graph break|To suppress this warning|from user code:|While executing )",
)


#: No more of a message is looked at: what is kept of it is much shorter.
_LONGEST = 50_000
#: A message as it is compared, and as it is shown, has so many characters at most.
MOST = 400


def normalise(message: str, *, masked: bool = False) -> str:
    """The message without private parts, numbers, addresses, paths and generated names: 400 characters of it.

    ``masked``: the private parts are already out of it.
    """
    return _tidied(message, _RULES, masked=masked)[:MOST]


def legible(message: str) -> str:
    """The message for a reader, private parts taken out, numbers kept: one line of at most 400 characters."""
    return shorten(_tidied(message, _ACCIDENTAL + _SPACE), MOST)


def _tidied(message: str, rules: _Rules, *, masked: bool = False) -> str:
    """The one place where a message becomes a signature's: cut, masked, and only then rewritten.

    A rule that takes numbers out would leave half of a token, which no rule knows any more.
    """
    from .private import mask  # some milliseconds that a command without a message does without

    message = message[:_LONGEST]
    cut = _ADVICE.search(message)
    if cut is not None and cut.start() > 0:
        message = message[: cut.start()]
    return _rewritten(message if masked else mask(message), rules)


def unnumbered(word: str) -> str:
    """What the rules make of a word that is known to be private: how it looks in a normalised message."""
    return _rewritten(word, _RULES)


def _rewritten(message: str, rules: _Rules) -> str:
    for pattern, text in rules:
        message = pattern.sub(text, message)
    return message.strip()


@dataclass(frozen=True, kw_only=True)
class Signature(Record):
    """``kind``: exception, exit, signal, memory_fault, timeout, memory, output, processes, disk, check,
    regex or values.

    ``said`` is the message for a reader, with its numbers; two runs of one failure may differ in it. A
    ``memory_fault`` is a crash after an access to memory that is not the program's, and its ``type`` the
    signal that ended this run: which one it is depends on where the heap happens to lie.
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
            return (
                True  # where a hang is caught, or which frame is innermost at a crash, varies with the rung
            )
        return not self.frames or not other.frames or self.frames[-1] == other.frames[-1]

    @property
    def line(self) -> str:
        """One line for tables."""
        head, message = self.type or self.kind, self.said or self.message
        return f"{head}: {message}" if message else head

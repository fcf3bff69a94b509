"""Makes untrusted text safe to print, and shortens text without cutting words or numbers."""

from __future__ import annotations

import re
import secrets
import shlex

#: Characters that must not reach a terminal, a page or a diff: controls except tab and newline; reordering,
#: joining and invisible characters, with which a text looks different from what it is; lone surrogates,
#: noncharacters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: Terminal sequences that are removed: colours and movements (CSI), titles and links (OSC, within one line).
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;:?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\))")
#: Marks the output of :func:`control`. Random for each process, so that no untrusted text can contain it.
_SEAL = secrets.token_hex(12)
_CONTROL = re.compile(rf"\x1b{_SEAL}<([^>]*)>")

#: If cutting at a space would leave less than this fraction, a word is cut.
_LEAST = 0.5


def printable(text: str) -> str:
    """Returns the text without terminal sequences; other unsafe characters become JSON escapes."""
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _UNSAFE.sub(lambda match: _escape(ord(match.group())), text)


def _escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def control(sequence: str) -> str:
    """Returns a control sequence of the lab's own, such as a colour, marked for :func:`for_terminal`."""
    return f"\x1b{_SEAL}<{sequence}>"


def for_terminal(text: str) -> str:
    """Returns the text for a terminal: with the lab's own control sequences, without all others."""
    parts = _CONTROL.split(text)
    return "".join(part if place % 2 else printable(part) for place, part in enumerate(parts))


def encodable(text: str) -> str:
    """Returns the text with lone surrogates (from file names that are not UTF-8) as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def command_line(*words: object) -> str:
    """Returns a command line quoted for a shell."""
    return shlex.join(str(word) for word in words)


def shorten(text: str, most: int) -> str:
    """Returns at most ``most`` characters of the text, as whole words; a cut text ends in ``...``.

    A word longer than about half of ``most`` is cut, but a number never is.
    """
    if len(text) <= most:
        return text
    room = most - 3
    if room <= 0:
        return "." * max(most, 0)
    end = room
    if not text[end].isspace():
        while end > 0 and not text[end - 1].isspace():
            end -= 1
        if end < room * _LEAST:
            end = room
            while end > 0 and _in_number(text, end):
                end -= 1
    return text[:end].rstrip(" \t\n,;:") + "..."


def _in_number(text: str, place: int) -> bool:
    """Whether a cut before ``place`` would split a number."""
    left, right = text[place - 1], text[place]
    return (left.isdigit() or left in ".-+e") and (right.isdigit() or right in ".e")


def counted(number: int, noun: str) -> str:
    """``1 kernel``, ``2 kernels``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def capital(text: str) -> str:
    """Capitalizes the text unless it starts with a name from code."""
    first = text.split(" ", 1)[0]
    return text[0].upper() + text[1:] if first.isalpha() and first != "torch" else text


def sentence(text: str) -> str:
    """Ends the text with one full stop, or keeps the ``...`` of a shortened one."""
    return text if text.endswith("...") else text.rstrip(".") + "."

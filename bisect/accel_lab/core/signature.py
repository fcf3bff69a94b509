"""Failure signatures: what makes two failures the same one.

A signature is the exception's type, its message with everything accidental taken out (numbers,
addresses, paths, generated names), and the innermost frames by function name. Two failures are the
same when kind and type agree and the normalised messages agree; frames break ties only for
exceptions and exits without a message: one fault surfaces through other frames on other rungs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\x1b\[[0-9;]*m", ""),
        (r"0x[0-9a-fA-F]+", "<addr>"),
        (r"(?:[A-Za-z]:)?(?:/[\w.+@~ -]+)+/([\w.+-]+)", r"<path>/\1"),
        (r"\b[a-z0-9]{40,60}\b", "<hash>"),
        (r"\bc[a-z0-9]{50,52}\b", "<hash>"),
        (
            r"\b(buf|arg|op|tmp|primals_|tangents_|getitem_|s|u|ks|xindex|x|L__self__|__compiled_fn_|resume_in_|graph_|kernel_?)\d+\b",
            r"\1<n>",
        ),
        (r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?", "<n>"),
        (r"\b(?:nan|inf)\b", "<n>"),
        (r"(?:<n>(?:, ?)?){2,}", "<n>"),
        (r"\s+", " "),
    )
)

#: Advice that torch appends to messages; it changes with the release and with the settings.
_ADVICE = re.compile(
    r"\s*(?:Set TORCHDYNAMO_VERBOSE=1|You can suppress this exception|Developer debug context:"
    r"|For more details about this graph break|To suppress this warning|from user code:|While executing )",
)


def normalise(message: str) -> str:
    """The message without numbers, addresses, paths and generated names; at most 400 characters."""
    cut = _ADVICE.search(message)
    if cut is not None and cut.start() > 0:
        message = message[: cut.start()]
    for pattern, text in _RULES:
        message = pattern.sub(text, message)
    return message.strip()[:400]


@dataclass(frozen=True, kw_only=True)
class Signature:
    """``kind``: exception, exit, signal, timeout, memory, output, processes, check, regex or values."""

    kind: str
    type: str = ""
    message: str = ""
    frames: tuple[str, ...] = ()

    def same_as(self, other: Signature | None) -> bool:
        """Whether both describe the same failure."""
        if other is None or self.kind != other.kind or self.type != other.type:
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
        head = self.type or self.kind
        return f"{head}: {self.message}" if self.message else head

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "type": self.type, "message": self.message, "frames": list(self.frames)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Signature:
        return cls(
            kind=data["kind"],
            type=data.get("type", ""),
            message=data.get("message", ""),
            frames=tuple(data.get("frames", ())),
        )

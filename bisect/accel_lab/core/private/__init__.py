"""What is private in a text: secrets, people, machines. Rules find it; what takes its place is another's.

This is the one place that decides it: signatures mask with :func:`mask` before they are normalised, and a
bundle replaces what :func:`spans` finds.
"""

from __future__ import annotations

from .engine import HIDDEN, SECRET_KINDS, Span, mask, secrets_in, spans
from .machines import DOCUMENTATION
from .people import Known, homes_in
from .rule import PLACEHOLDER
from .words import COMMON, GENERIC, distinctive, is_public

__all__ = [
    "COMMON",
    "DOCUMENTATION",
    "GENERIC",
    "HIDDEN",
    "PLACEHOLDER",
    "SECRET_KINDS",
    "Known",
    "Span",
    "distinctive",
    "homes_in",
    "is_public",
    "mask",
    "secrets_in",
    "spans",
]

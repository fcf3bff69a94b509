"""Finds private text: secrets, people, machines. The caller replaces it.

All of the lab uses these rules: signatures call :func:`mask` before normalization, and a bundle replaces what
:func:`spans` finds.
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

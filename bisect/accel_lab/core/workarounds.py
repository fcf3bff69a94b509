"""Workarounds and known failures in the findings, each with the run that verified it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .record import Record, as_json


class Checked(str, Enum):
    """How a workaround was verified.

    ``plain``: plain Python ran the changed script successfully. ``values``: in addition, a run in the lab
    whose comparison of recorded values had found the failure no longer finds it. ``release``: the unchanged
    script passed on that release.
    """

    PLAIN = "plain"
    VALUES = "values"
    RELEASE = "release"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Cost(Record):
    """The run time with a workaround: medians in seconds, None if not measured.

    ``of`` is ``region`` (one call of the compiled regions, after the first) or ``run`` (the whole script).
    ``eager`` is the time without torch.compile, ``failing`` that of the failing compilation. ``runs`` is the
    number of interleaved measurements of each.
    """

    of: str
    seconds: float = field(metadata=as_json(digits=9))
    eager: float | None = None
    failing: float | None = None
    runs: int = 1


@dataclass(frozen=True, kw_only=True)
class Workaround(Record):
    """A change that makes the user's script pass.

    ``kind`` is ``release``, ``backport``, ``setting``, ``fallback``, ``pass``, ``disable``, ``dynamic``,
    ``clone`` or ``backend``. ``code`` is what to paste or change. ``where`` is ``paste`` (below ``import
    torch``), ``top`` (above it), ``edit`` (``code`` replaces existing code) or ``shell`` (a command).
    ``words`` say what it does.
    """

    kind: str
    code: str
    where: str
    words: str
    verified: Checked
    cost: Cost | None = None


@dataclass(frozen=True, kw_only=True)
class KnownFailure(Record):
    """A known failure with the same stage, component and signature, which was run on this build.

    ``issue`` is the number of the public issue, None if there is none. ``fails_on`` and ``passes_on`` are the
    releases on which the entry was run. ``shown`` is how its run on the user's build ended.
    """

    entry: str
    title: str
    issue: int | None = None
    match: str = ""
    shown: str = ""
    fails_on: tuple[str, ...] = ()
    passes_on: tuple[str, ...] = ()
    fixed_in: str | None = None

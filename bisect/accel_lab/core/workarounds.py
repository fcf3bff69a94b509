"""Workarounds and known failures in findings: what a user can do today, each with the run that showed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from .record import Record, as_json


class Checked(str, Enum):
    """How a workaround was verified.

    ``plain``: the changed script was run by plain Python and ended well. ``values``: it was run so as well,
    and once more in the lab, whose comparison of the recorded values found the failure and finds it no more.
    ``release``: the unchanged script was run on that release.
    """

    PLAIN = "plain"
    VALUES = "values"
    RELEASE = "release"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Cost(Record):
    """What a workaround costs, as medians in seconds; None where it was not measured or cannot be.

    ``of`` is ``region`` (one call of the compiled regions, after the first) or ``run`` (the whole script).
    ``eager`` is the same without torch.compile, ``failing`` with the failing compile. ``runs`` is how often
    each was measured, in turn.
    """

    of: str
    seconds: float = field(metadata=as_json(digits=9))
    eager: float | None = None
    failing: float | None = None
    runs: int = 1


@dataclass(frozen=True, kw_only=True)
class Workaround(Record):
    """A change with which the user's own script passes.

    ``kind`` is ``release``, ``backport``, ``setting``, ``fallback``, ``pass``, ``disable``, ``dynamic``,
    ``clone`` or ``backend``. ``code`` is what to paste or change, ``where`` is ``paste`` (lines below
    ``import torch``), ``top`` (above it), ``edit`` (``code`` replaces what is there) or ``shell`` (a
    command). ``words`` say what it does.
    """

    kind: str
    code: str
    where: str
    words: str
    verified: Checked
    cost: Cost | None = None


@dataclass(frozen=True, kw_only=True)
class KnownFailure(Record):
    """A failure of the catalogue with the same stage, component and signature, run on this build.

    ``issue`` is the number of the public issue, None where there is none. ``fails_on`` and ``passes_on`` are
    the releases on which the entry was run. ``shown`` is how its run on the user's build ended.
    """

    entry: str
    title: str
    issue: int | None = None
    match: str = ""
    shown: str = ""
    fails_on: tuple[str, ...] = ()
    passes_on: tuple[str, ...] = ()
    fixed_in: str | None = None

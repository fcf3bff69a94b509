"""A line of releases without environments: each release's answer is given, every question is noted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from accel_lab.core.releases.versions import Tested
from accel_lab.core.verdict import Verdict

LETTERS = {"G": Verdict.GOOD, "B": Verdict.BAD, "S": Verdict.SKIP, "D": Verdict.DIFFERENT}


def names(count: int) -> list[str]:
    """Release names, oldest first; ``2.10.0`` sorts before ``2.9.0`` as text, which must not matter."""
    return [f"2.{n}.0" for n in range(count)]


def answer(torch: str, letter: str, **changes: Any) -> Tested:
    return Tested(torch=torch, verdict=LETTERS[letter], **changes)


def answered(row: Tested | BaseException) -> Future[Tested]:
    job: Future[Tested] = Future()
    if isinstance(row, BaseException):
        job.set_exception(row)
    else:
        job.set_result(row)
    return job


@dataclass
class FakeJudge:
    """Answers from a pattern such as ``GGSBB``.

    ``raises`` are exceptions in place of an answer. With ``pick`` an answer comes only when somebody waits:
    ``pick`` says which of the open questions it is, and :meth:`wait` stands for ``concurrent.futures.wait``.
    """

    pattern: str
    raises: dict[str, BaseException] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    pick: Callable[[Sequence[str]], str] | None = None
    asked: list[str] = field(default_factory=list)
    prefetched: list[str] = field(default_factory=list)
    unforeseen: list[str] = field(default_factory=list)
    open: dict[str, Future[Tested]] = field(default_factory=dict)
    most_open: int = 0

    def __post_init__(self) -> None:
        self.line = names(len(self.pattern))
        self._letters = dict(zip(self.line, self.pattern, strict=True))

    def submit(self, version: str) -> Future[Tested]:
        self.asked.append(version)
        if version not in self.prefetched:
            self.unforeseen.append(version)
        if self.pick is None:
            return answered(self._answer(version))
        self.open[version] = Future()
        self.most_open = max(self.most_open, len(self.open))
        return self.open[version]

    def prefetch(self, version: str) -> None:
        self.prefetched.append(version)

    def wait(self, jobs: Collection[Future[Tested]], return_when: str) -> None:
        assert self.pick is not None
        assert set(jobs) == set(self.open.values())
        version = self.pick(list(self.open))
        row = self._answer(version)
        job = self.open.pop(version)
        if isinstance(row, BaseException):
            job.set_exception(row)
        else:
            job.set_result(row)

    def _answer(self, version: str) -> Tested | BaseException:
        letter = self._letters[version]
        return self.raises.get(version) or answer(version, letter, error=self.errors.get(version, 0.0))

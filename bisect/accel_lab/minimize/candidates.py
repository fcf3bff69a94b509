"""Runs candidates through the lab, each in its own folder, and keeps every answer.

Answers are journalled by the candidate's content. A restarted reduction proposes candidates in the same order
and finds its answers in the journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel_lab.core.machine.files import write_atomic
from accel_lab.core.outcome import Outcome
from accel_lab.core.probe import Probe, Program
from accel_lab.core.verdict import Verdict
from accel_lab.reduction.problem import Candidate, OutOfBudget
from accel_lab.search.lab import Lab

from .target import Answer, Target, ask

#: ``listener(note, tried, source)`` is called for every smaller program.
Listener = Callable[[str, int, str], None]
SCRIPT_NAME = "repro.py"


@dataclass(kw_only=True)
class Clock:
    """The time limit of a reduction; it starts at construction."""

    seconds: float
    started: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    def part(self, share: float) -> Clock:
        """Returns a clock for a share of the remaining time."""
        return Clock(seconds=max(0.0, self.left * share))


class LabProblem:
    """The :class:`accel_lab.reduction.problem.Problem` that runs candidates as probes."""

    def __init__(
        self,
        *,
        lab: Lab,
        probe: Probe,
        target: Target,
        folder: Path,
        clock: Clock,
        workers: int = 2,
        listener: Listener | None = None,
        args: tuple[str, ...] = (),
    ) -> None:
        self._lab = lab
        self._probe = probe
        self.target = target
        self._folder = folder
        self._clock = clock
        self._args = args
        self._listener = listener or (lambda note, asked, source: None)
        self._lock = threading.Lock()
        self._jobs: dict[str, Future[bool]] = {}
        self._digests: dict[Path, str] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = folder / "answers.jsonl"
        self._answers = _read_answers(self._journal)
        self._workers = workers
        self._executor = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="candidate")
        self.best: Candidate | None = None
        self.asked = 0
        self.passing: list[Candidate] = []
        self.ran_out = False

    # -- the interface for reducers -------------------------------------------------------------

    @property
    def workers(self) -> int:
        return self._workers

    def submit(self, candidate: Candidate) -> Future[bool]:
        """Tests whether ``candidate`` is interesting; raises :class:`OutOfBudget` when the time is over."""
        key = self.key(candidate)
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and not known.cancelled():
                return known
            answer = self._answers.get(key)
            if answer is None and self._clock.left <= 0:
                self.ran_out = True
                raise OutOfBudget
            job: Future[bool]
            if answer is not None:
                job = Future()
                job.set_result(answer.interesting)
                self._remember(candidate, answer)
            else:
                job = self._executor.submit(self._ask, key, candidate)
            self._jobs[key] = job
            return job

    def found(self, candidate: Candidate, note: str) -> None:
        """Writes the best candidate so far to disk, so that it survives if the run is killed."""
        self.best = candidate
        write_atomic(self._folder / "best.py", candidate.source)
        self._listener(note, self.asked, candidate.source)

    # -- probes --------------------------------------------------------------------------------

    def key(self, candidate: Candidate) -> str:
        """Sixteen hex digits over the source and the candidate's files."""
        digest = hashlib.sha256(candidate.source.encode())
        for name, path in sorted(candidate.files.items()):
            digest.update(f"\0{name}\0{self._digest(path)}".encode())
        return digest.hexdigest()[:16]

    def answer(self, candidate: Candidate) -> Answer | None:
        """Returns the verdicts of a candidate, or None."""
        return self._answers.get(self.key(candidate))

    def probe_of(self, candidate: Candidate) -> Probe:
        """Returns the probe for a candidate and writes its program to its folder."""
        key = self.key(candidate)
        path = write_program(candidate, self._folder / "candidates" / key)
        program = Program(path=str(path), args=self._args, sha256=key)
        return replace(self._probe, program=program)

    def _ask(self, key: str, candidate: Candidate) -> bool:
        probe = self.probe_of(candidate)
        answer, outcomes = ask(self._lab, probe, self.target)
        with self._lock:
            self.asked += 1
            self._answers[key] = answer
            with self._journal.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"key": key, **answer.to_json()}) + "\n")
            self._remember(candidate, answer)
        _remove(outcomes, Path(str(probe.program.path)).parent)
        return answer.interesting

    def _remember(self, candidate: Candidate, answer: Answer) -> None:
        if answer.bad is Verdict.GOOD or answer.stopped:
            self.passing.append(candidate)

    def _digest(self, path: Path) -> str:
        if path not in self._digests:
            # A folder or a large file next to the script is a link that no candidate changes.
            small = path.is_file() and path.stat().st_size < 1 << 28
            self._digests[path] = hashlib.sha256(path.read_bytes()).hexdigest() if small else str(path)
        return self._digests[path]

    def close(self) -> None:
        """Waits for running candidates and drops waiting ones."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def write_program(candidate: Candidate, folder: Path) -> Path:
    """Writes the candidate's script to ``folder`` with links to its files; returns the script's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in candidate.files.items():
        link = folder / name
        if not link.is_symlink() and not link.exists():
            os.symlink(path.resolve(), link)
    script = folder / SCRIPT_NAME
    write_atomic(script, candidate.source)
    return script


def _read_answers(path: Path) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            found[row["key"]] = Answer.from_json(row)
        except (ValueError, KeyError):
            continue  # the last line is torn if the run was killed
    return found


def _remove(outcomes: list[Outcome], program: Path) -> None:
    """Removes the folders of a candidate's runs; there are hundreds, and the answers are kept."""
    for folder in [program, *(Path(outcome.folder) for outcome in outcomes if outcome.folder)]:
        shutil.rmtree(folder, ignore_errors=True)

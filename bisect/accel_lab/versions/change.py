"""Finds the source change at a flip by running the two installed releases; no checkout, no build."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache

from packaging.version import Version

from accel_lab.core.errors import LabError
from accel_lab.core.releases.flip_change import FlipChange, Piece
from accel_lab.core.stages import LADDER, Rung, Stage
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.core.verdict import Verdict
from accel_lab.execution.journal import write_atomic
from accel_lab.search import frames
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.change.backport import patch_of
from accel_lab.search.change.change_search import Change, ChangeSearch, NoChange
from accel_lab.search.change.companions import module_of
from accel_lab.search.change.pieces import Versions
from accel_lab.search.change.pool import NATIVE, Answer, Executed, OutOfBudget, Place
from accel_lab.search.ladder_runner import LadderRunner

from .build_verdict import TargetFailure
from .files import Sources, sources
from .flip_sides import Side
from .release_session import ReleaseSession

#: Dynamo may trace functions of these files, so they are not watched but count as called.
_TRACED = (
    "torch/nn/",
    "torch/_dynamo/polyfills/",
    "torch/functional.py",
    "torch/optim/",
    "torch/utils/_pytree",
)
#: Folder of the served files, in a release's folder.
_FOLDER = "mixed"


def find_change(
    good: tuple[ReleaseSession, Side],
    bad: tuple[ReleaseSession, Side],
    target: TargetFailure,
    stage: Stage,
    *,
    limit_s: float,
    listener: Callable[[str], None],
) -> FlipChange:
    """Returns the piece of torch's Python sources that makes the difference between two releases.

    ``good`` and ``bad`` are the passing and the failing release, with their ladders. Raises :class:`LabError`
    if the sources cannot be read.
    """
    with _Sources(good[0], bad[0]) as both:
        mixer = BuildMixer(good[0], bad[0], both, target, _rung(good[1], bad[1]), limit_s)
        found = ChangeSearch(mixer, groups_of(both.changed, stage), _names(bad[1]), listener).run()
        fixed = Version(good[0].version) > Version(bad[0].version)
        newer = {path: both.text(fixed, path) or "" for path, _ in getattr(found, "places", ())}
        return _record(found, newer)


def groups_of(changed: Sequence[str], stage: Stage) -> list[list[str]]:
    """Groups changed files: the stage's own, those of the surrounding part of the compiler, others."""
    areas = [frames.areas_of(stage), frames.around(stage)]
    left = list(changed)
    groups: list[list[str]] = []
    for area in areas:
        group = [path for path in left if area and path.startswith(area)]
        left = [path for path in left if path not in set(group)]
        groups.append(group)
    return [group for group in (*groups, left) if group]


def _rung(good: Side, bad: Side) -> Rung:
    """Returns the lowest rung that fails on the bad side and passes on the good one, else the kernel rung."""
    one, two = ({step.rung: step.verdict for step in side.ladder} for side in (good, bad))
    return next(
        (rung for rung in LADDER if two.get(rung) is Verdict.BAD and one.get(rung) is Verdict.GOOD),
        Rung.KERNEL,
    )


def _names(bad: Side) -> set[str]:
    """Returns words of the culprit and the torch functions in the failure's traceback."""
    part = bad.culprit.component if bad.culprit is not None else None
    words = set(re.findall(r"[A-Za-z_]\w+", part.name)) if part is not None else set()
    raised = bad.top.raised if bad.top is not None else None
    files = [frame.function for frame in raised.frames if frame.file.startswith("torch/")] if raised else []
    return (words | set(files[-3:])) - {"aten", "prims", "default", "Tensor", "torch", "forward", "call"}


def _record(found: Change | NoChange, newer: Mapping[str, str]) -> FlipChange:
    """Builds the record; ``newer`` are the changed files in the newer release, for line numbers."""
    if isinstance(found, NoChange):
        return FlipChange(found=False, why=found.reason, runs=found.runs, candidates=found.candidates)
    path, key = found.main
    return FlipChange(
        found=True,
        file=path,
        symbol=key,
        diff=found.diff,
        both_ways=found.both_ways,
        complete=found.complete,
        pieces=tuple(
            Piece(file=path, symbol=key, lines=lines_of(newer[path], key)) for path, key in found.places
        ),
        patch=patch_of(found.files),
        runs=found.runs,
        candidates=found.candidates,
    )


def lines_of(source: str, key: str) -> tuple[int, ...]:
    """Returns the first and last line of a piece, from 1; empty if the source does not have it."""
    piece = Versions.of("", source, source).base.by_key.get(key)
    text = piece.text.lstrip("\n") if piece is not None else ""
    at = source.find(text) if text else -1
    if at < 0:
        return ()
    first = source.count("\n", 0, at) + 1
    return first, first + text.count("\n")


class _Sources:
    """Copies of both releases' Python files, kept while the search runs."""

    def __init__(self, good: ReleaseSession, bad: ReleaseSession) -> None:
        self._sessions = (good, bad)
        self.good: Sources
        self.bad: Sources

    def __enter__(self) -> _Sources:
        self.good, self.bad = (sources(session, ["torch/"]) for session in self._sessions)
        return self

    def __exit__(self, *exc: object) -> None:
        for one in (self.good, self.bad):
            shutil.rmtree(one.copies, ignore_errors=True)

    @property
    def changed(self) -> list[str]:
        """Returns the paths of Python files that both releases have and that differ."""
        return [
            path
            for path, digest in sorted(self.bad.files.items())
            if path.endswith(".py") and self.good.files.get(path, digest) != digest
        ]

    def text(self, good: bool, path: str) -> str | None:
        """Returns a file of one release; None if it is missing or cannot be read."""
        try:
            return ChildFiles((self.good if good else self.bad).copies).text(path)
        except UntrustedFileError:
            return None


class BuildMixer:
    """The :class:`accel_lab.search.change.pool.Mixer` of two real releases; all runs are cold."""

    def __init__(
        self,
        good: ReleaseSession,
        bad: ReleaseSession,
        both: _Sources,
        target: TargetFailure,
        rung: Rung,
        limit_s: float,
    ) -> None:
        self._both = both
        self._rung = rung
        self._until = time.monotonic() + limit_s
        self._sessions = {False: good, True: bad}
        self._runners = {failing: _runner(session, target) for failing, session in self._sessions.items()}

    @cache  # noqa: B019 - lives as long as the search
    def failing(self, path: str) -> Versions | None:
        base, other = self._both.text(False, path), self._both.text(True, path)
        if base is None or other is None or base == other:
            return None
        return Versions.of(path, base, other)

    def passing(self, path: str) -> Versions | None:
        versions = self.failing(path)
        return None if versions is None else versions.reversed()

    @lru_cache(maxsize=2)  # noqa: B019 - lives as long as the search
    def native_names(self, failing: bool) -> frozenset[str]:
        build = self._both.bad if failing else self._both.good
        names: set[str] = set()
        for path in build.files:
            if path.endswith(".py"):
                names.update(NATIVE.findall(self._both.text(not failing, path) or ""))
        return frozenset(names)

    def executed(self, places: Sequence[Place], paths: Sequence[str]) -> Executed | None:
        watched: dict[str, list[str]] = {module_of(path): [] for path in paths}
        for path, key in places:
            if not path.startswith(_TRACED):
                watched[module_of(path)].append(key)
        self._spend()
        outcome = self._runners[True].look(
            self._rung, (("mixed_sources", {"served": {}, "watched": watched}),), "change"
        )
        facts = outcome.facts.get("mixed_sources")
        if facts is None or self._runners[True].verdict(outcome) is not Verdict.BAD:
            return None
        ran, loaded = frozenset(facts["executed"]), frozenset(facts["loaded"])
        files = frozenset(path for path in paths if module_of(path) in loaded)
        functions = frozenset(
            (path, key)
            for path, key in places
            if f"{module_of(path)}::{key}" in ran or (path.startswith(_TRACED) and path in files)
        )
        return Executed(functions=functions, files=files)

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
        self._spend()
        session = self._sessions[failing]
        served = {module_of(path): self._kept(session, text) for path, text in texts.items()}
        switches = (("mixed_sources", {"served": served, "watched": {}}),)
        step = self._runners[failing].one(self._rung, switches, "change")
        raised = step.outcome.raised
        return Answer(
            verdict=step.verdict,
            frames=tuple((frame.file, frame.function) for frame in raised.frames) if raised else (),
        )

    @staticmethod
    def _kept(session: ReleaseSession, text: str) -> str:
        """Writes a text to a file named by its digest, so that a question's key depends on the text."""
        folder = session.folder / _FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.py"
        if not path.exists():
            write_atomic(path, text)
        return str(path)

    def _spend(self) -> None:
        if time.monotonic() > self._until:
            raise OutOfBudget


def _runner(session: ReleaseSession, target: TargetFailure) -> LadderRunner:
    """Returns a runner whose runs are cold: a warm server has already imported what is exchanged."""
    base = BaselineSearch(session.lab, session.probe).first_runs(silent=target.signature.kind == "values")
    if session.environment.spec.provider == "docker":
        raise LabError("the change is not searched in containers: they do not see the mixed sources")
    return LadderRunner(
        lab=session.lab, probe=replace(session.probe, cold=True), baseline=target.as_premise(base)
    )

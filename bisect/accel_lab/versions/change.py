"""Finds the source change at a flip by running the two installed releases; no checkout, no build."""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from packaging.version import Version

from accel_lab.core.errors import LabError
from accel_lab.core.outcome import Outcome
from accel_lab.core.releases.flip_change import FlipChange, Piece
from accel_lab.core.stages import LADDER, Rung, Stage
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.core.verdict import Verdict
from accel_lab.execution.journal import write_atomic
from accel_lab.search import frames
from accel_lab.search.baseline import BaselineSearch
from accel_lab.search.change import headers
from accel_lab.search.change.backport import patch_of
from accel_lab.search.change.change_result import Change, NoChange
from accel_lab.search.change.change_search import ChangeSearch
from accel_lab.search.change.companions import PieceId, module_of
from accel_lab.search.change.hunks import hunks_of
from accel_lab.search.change.pieces import WHOLE, Versions, is_python
from accel_lab.search.change.pool import Answer, ExecutedCode, OutOfBudget, natives_of
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
    compiled = stage in (Stage.KERNEL, *frames.KERNEL_STAGES)
    with _Sources(good[0], bad[0], ["torch/", *(headers.AREAS if compiled else ())]) as both:
        rung = _rung(good[1], bad[1])
        runs = [step.outcome for side in (good[1], bad[1]) for step in side.ladder if step.rung is rung]
        mixer = BuildMixer(good[0], bad[0], both, target, rung, limit_s, runs)
        found = ChangeSearch(mixer, groups_of(both.changed, stage), _names(bad[1]), listener).run()
        fixed = Version(good[0].version) > Version(bad[0].version)
        newer = {path: both.text(fixed, path) or "" for path, _ in getattr(found, "places", ())}
        return _record(found, newer)


def groups_of(changed: Sequence[str], stage: Stage) -> list[list[str]]:
    """Groups changed files: the stage's own, those of the compiler part around it, headers, others."""
    areas = [frames.areas_of(stage), frames.around(stage)]
    left = list(changed)
    groups: list[list[str]] = []
    for area in areas:
        group = [path for path in left if area and path.startswith(area)]
        left = [path for path in left if path not in set(group)]
        groups.append(group)
    groups.append([path for path in left if path.startswith(headers.AREAS)])
    left = [path for path in left if not path.startswith(headers.AREAS)]
    return [group for group in (*groups, left) if group]


def _rung(good: Side, bad: Side) -> Rung:
    """Returns the lowest rung that fails on the bad side and passes on the good one, else the kernel rung."""
    one, two = ({step.rung: step.verdict for step in side.ladder} for side in (good, bad))
    return next(
        (rung for rung in LADDER if two.get(rung) is Verdict.BAD and one.get(rung) is Verdict.GOOD),
        Rung.KERNEL,
    )


def _names(bad: Side) -> set[str]:
    """Returns words of the culprit and the torch functions in the failure's traceback.

    Of a line that Dynamo traces wrongly these are the names in it: what it calls is what Dynamo models.
    """
    part = bad.culprit.component if bad.culprit is not None else None
    named = "" if part is None else part.detail if part.kind == "line" else part.name
    words = set(re.findall(r"[A-Za-z_]\w+", named))
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
        symbol=_symbol(found, path, key),
        diff=found.diff,
        both_ways=found.both_ways,
        complete=found.complete,
        pieces=tuple(
            Piece(file=path, symbol=_symbol(found, path, key), lines=lines_of(newer[path], path, key))
            for path, key in found.places
        ),
        patch=patch_of(found.files) if all(is_python(file) and own for file, own, _ in found.files) else (),
        runs=found.runs,
        candidates=found.candidates,
    )


def _symbol(found: Change, path: str, key: str) -> str:
    """Returns the name of a piece; of a header it is the function that the first exchanged line is in."""
    if key != WHOLE:
        return key
    own, mixed = next((own, mixed) for file, own, mixed in found.files if file == path)
    hunks = hunks_of(own, mixed)
    return headers.function_at(own, hunks[0][0] + 1) if hunks else ""


def lines_of(source: str, path: str, key: str) -> tuple[int, ...]:
    """Returns the first and last line of a piece, from 1; empty if the source does not have it."""
    piece = Versions.of(path, source, source).base.by_key.get(key)
    text = piece.text.lstrip("\n") if piece is not None else ""
    at = source.find(text) if text else -1
    if at < 0:
        return ()
    first = source.count("\n", 0, at) + 1
    return first, first + text.count("\n")


def compiled(outcome: Outcome) -> tuple[int, ...]:
    """Returns how many frames Dynamo was given, how many it compiled, and how many graphs that made."""
    counters = outcome.facts.get("counters") or {}
    frames, stats = counters.get("frames") or {}, counters.get("stats") or {}
    return (frames.get("total", 0), frames.get("ok", 0), stats.get("unique_graphs", 0))


class _Sources:
    """Copies of both releases' Python files, kept while the search runs."""

    def __init__(self, good: ReleaseSession, bad: ReleaseSession, prefixes: Sequence[str]) -> None:
        self._sessions = (good, bad)
        self._prefixes = prefixes
        self.good: Sources
        self.bad: Sources

    def __enter__(self) -> _Sources:
        self.good, self.bad = (sources(session, self._prefixes) for session in self._sessions)
        return self

    def __exit__(self, *exc: object) -> None:
        for one in (self.good, self.bad):
            shutil.rmtree(one.copies, ignore_errors=True)

    @property
    def changed(self) -> list[str]:
        """Returns the paths of Python files and headers that both releases have and that differ."""
        return [
            path
            for path, digest in sorted(self.bad.files.items())
            if (is_python(path) or path.startswith(headers.AREAS))
            and self.good.files.get(path, digest) != digest
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
        runs: Sequence[Outcome],
    ) -> None:
        self._both = both
        self._compiled = {compiled(outcome) for outcome in runs}
        self._rung = rung
        self._until = time.monotonic() + limit_s
        self._sessions = {False: good, True: bad}
        self._runners = {failing: _runner(session, target) for failing, session in self._sessions.items()}

    @functools.cache  # noqa: B019 - lives as long as the search
    def failing(self, path: str) -> Versions | None:
        base, other = self._both.text(False, path), self._both.text(True, path)
        if base == other:
            return None
        return Versions.of(path, base or "", other or "")

    def passing(self, path: str) -> Versions | None:
        versions = self.failing(path)
        return None if versions is None else versions.reversed()

    @functools.lru_cache(maxsize=2)  # noqa: B019 - lives as long as the search
    def native_names(self, failing: bool) -> frozenset[str]:
        build = self._both.bad if failing else self._both.good
        names: set[str] = set()
        for path in build.files:
            if path.endswith(".py"):
                names |= natives_of(self._both.text(not failing, path) or "")
        return frozenset(names)

    def executed(self, places: Sequence[PieceId], paths: Sequence[str]) -> ExecutedCode | None:
        if not any(map(is_python, paths)):
            used = headers.included(functools.partial(self._both.text, False))
            return ExecutedCode(
                functions=frozenset(place for place in places if place[0] in used), files=used & set(paths)
            )
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
        named = {place: f"{module_of(place[0])}::{place[1]}" for place in places}
        return ExecutedCode(
            functions=frozenset(
                place
                for place, name in named.items()
                if name in ran or (place[0].startswith(_TRACED) and place[0] in files)
            ),
            at_import=frozenset(place for place, name in named.items() if name in facts["at_import"]),
            files=files,
        )

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
        self._spend()
        session = self._sessions[failing]
        kept = {path: self._kept(session, text) for path, text in texts.items()}
        mixed = {
            "served": {module_of(path): place for path, place in kept.items() if is_python(path)},
            "watched": {},
        }
        if own := {path: place for path, place in kept.items() if not is_python(path)}:
            mixed["headers"] = own
        switches = (("mixed_sources", mixed),)
        step = self._runners[failing].one(self._rung, switches, "change")
        raised = step.outcome.raised
        verdict = step.verdict
        if failing and verdict is Verdict.GOOD and not self._is_compiled(step.outcome):
            verdict = Verdict.SKIP  # what is not compiled cannot be wrong: the mix broke the compiler
        return Answer(
            verdict=verdict,
            message=raised.message if raised else "",
            frames=raised.frames if raised else (),
        )

    def _is_compiled(self, outcome: Outcome) -> bool:
        """Whether a run compiled as much as that of one of the two releases, if that is known."""
        return not self._compiled or compiled(outcome) in self._compiled

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

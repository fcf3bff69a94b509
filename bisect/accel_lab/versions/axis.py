"""Finds every flip of one failure on a line of releases, and what differs between its two sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import Environment, EnvironmentUnavailable
from accel_lab.core.releases.flip_change import FlipChange
from accel_lab.core.releases.flip_details import Blame, FlipDetails
from accel_lab.core.releases.versions import Flip, Tested, Versions
from accel_lab.core.stages import Stage
from accel_lab.core.verdict import Verdict
from accel_lab.execution.auxiliary import Interrupted
from accel_lab.search.diagnosis import Options
from accel_lab.search.timeline.companions import FlipSide, blame, differing
from accel_lab.search.timeline.repeat_policy import chain_length
from accel_lab.search.timeline.two_axes import two_axes
from accel_lab.search.timeline.version_search import LineSearch

from . import files, flip_sides
from .build_verdict import TargetFailure
from .change import find_change
from .commits import commits_of, shown_commands
from .flip_sides import Side
from .release_judge import ReleaseJudge
from .release_session import ReleaseListener, ReleaseSession, ReleaseSessions, silent

#: Packages that are held and swapped at a flip. Every side uses the same C++ compiler.
COMPANIONS = ("numpy", "setuptools", "sympy", "triton")
#: Maximum flips that are studied, newest first, as those are still actionable.
MOST_FLIPS = 4


class VersionAxis:
    """Searches ``line`` (oldest first) for ``target``; ``versions`` is filled while it runs.

    ``reference`` is the release on the line that showed the failure, with its ``side``. ``known`` are results
    that need no new run. ``change_s`` is the time limit in seconds to find the change at each flip; 0 skips
    it.
    """

    def __init__(
        self,
        sessions: ReleaseSessions,
        line: Sequence[str],
        target: TargetFailure,
        options: Options,
        *,
        reference: str | None = None,
        side: Side | None = None,
        known: Iterable[Tested] = (),
        side_by_side: int = 2,
        companions: bool = True,
        change_s: float = 0.0,
        clone: Path | None = None,
        listener: ReleaseListener = silent,
    ) -> None:
        self._companions = companions
        self._change_s = change_s
        self._clone = clone
        self._sessions = sessions
        self._line = tuple(line)
        self._target = replace(target, verdicts=chain_length(len(self._line)))
        self._options = options
        self._reference = reference
        self._known = tuple(known)
        self._side_by_side = side_by_side
        self._listener = listener
        self._sides: dict[str, Side] = {side.version: side} if side is not None else {}
        self.versions = Versions(line=self._line, complete=False, why="not begun")

    def run(self) -> Versions:
        """Searches the line and studies the newest flips; if interrupted, ``versions`` has what is known."""
        self._search()
        self._study()
        return self.versions

    def _search(self) -> None:
        with self._judge() as judge:
            search = LineSearch(
                self._line,
                judge,
                reference=self._reference,
                known=self._known,
                side_by_side=self._side_by_side,
            )
            try:
                search.run()
            finally:
                self.versions = search.found

    def _judge(self) -> ReleaseJudge:
        return ReleaseJudge(
            self._sessions, self._target, side_by_side=self._side_by_side, listener=self._listener
        )

    # -- what is different around a flip -----------------------------------------------------------

    def _study(self) -> None:
        flips = list(self.versions.flips)
        for place in range(max(0, len(flips) - MOST_FLIPS), len(flips)):
            self._listener(
                "looking", flips[place].at, f"both sides of {flips[place].after} and {flips[place].at}"
            )
            flips[place] = self._with_details(flips[place])
            axes = two_axes(flips, {name: side.laddered for name, side in self._sides.items()})
            self.versions = replace(self.versions, flips=tuple(flips), tested=self._rows(), axes=axes)

    def _rows(self) -> tuple[Tested, ...]:
        """Returns the tested releases with the culprits found on them."""
        return tuple(
            replace(row, stage=self._sides[row.torch].stage, component=self._sides[row.torch].component)
            if row.torch in self._sides
            else row
            for row in self.versions.tested
        )

    def _with_details(self, flip: Flip) -> Flip:
        """Returns the flip with its details; what cannot be built or read becomes a note."""
        good_version, bad_version = ends(flip)
        try:
            with self._sessions.session(good_version) as good, self._sessions.session(bad_version) as bad:
                return self._between(flip, good, bad)
        except Interrupted:
            raise
        except LabError as error:
            return replace(flip, notes=(*flip.notes, str(error)))

    def _between(self, flip: Flip, good: ReleaseSession, bad: ReleaseSession) -> Flip:
        one = self._good_side(good)
        two = self._bad_side(bad)
        details = FlipDetails(good=one.row, bad=two.row, code=flip_sides.side_by_side(one, two))
        notes = [*flip.notes, *(said for said in one.warnings if isinstance(said, str))]
        stage = two.culprit.stage if two.culprit is not None else None
        if stage is not None and stage not in (Stage.EAGER, Stage.ENVIRONMENT):
            part = two.culprit.component.name if two.culprit and two.culprit.component else ""
            compared = files.compare(good, bad, stage, two.top, part)
            if isinstance(compared, str):
                notes.append(f"the files of the two builds were not compared: {compared}")
            else:
                details = replace(details, files=compared.row)
                notes.append(compared.summary)
        # The uncompiled script uses torch's Python sources as well.
        if self._change_s and stage is not None and stage is not Stage.ENVIRONMENT:
            flip = replace(flip, change=self._change((good, one), (bad, two), stage))
        if self._companions:
            blamed = self._blame(good, bad)
            if isinstance(blamed, str):
                notes.append(blamed)
            else:
                details = replace(details, companions=blamed)
                notes.append(f"companions: {blamed.sentence}")
        return replace(flip, notes=tuple(notes), details=details)

    def _change(
        self, good: tuple[ReleaseSession, Side], bad: tuple[ReleaseSession, Side], stage: Stage
    ) -> FlipChange:
        """Finds the piece of torch's sources that makes the difference."""
        try:
            found = find_change(
                good,
                bad,
                self._target,
                stage,
                limit_s=self._change_s,
                listener=lambda words: self._listener("change", bad[0].version, words),
            )
        except Interrupted:
            raise
        except LabError as error:
            return FlipChange(found=False, why=str(error))
        if not found.found:
            return found
        older, newer = sorted((good[0].version, bad[0].version), key=self._line.index)
        return self._with_commits(found, older, newer)

    def _with_commits(self, found: FlipChange, older: str, newer: str) -> FlipChange:
        """Adds the commits that touched the pieces between two releases, or the commands that find them."""
        found = replace(found, log=tuple(shown_commands(found.pieces, older, newer)))
        if self._clone is None:
            return found
        folder = self._sessions.setting.folder / "git"
        try:
            commits = commits_of(self._clone, found.pieces, older, newer, folder)
        except Interrupted:
            raise
        except LabError as error:
            return replace(found, git=str(error))
        return replace(found, commits=tuple(commits))

    def _blame(self, good: ReleaseSession, bad: ReleaseSession) -> Blame | str:
        """Decides whether torch or a companion package makes the difference.

        Returns a sentence with the differing packages if they cannot be swapped.
        """
        one, two = (
            FlipSide(torch=session.version, companions=companions_of(session.environment))
            for session in (good, bad)
        )
        names = differing(one, two)
        try:
            if names:
                self._sessions.spec(two.torch, tuple((name, one.companions[name]) for name in names))
        except EnvironmentUnavailable as error:
            pairs = ", ".join(f"{name} {one.companions[name]} and {two.companions[name]}" for name in names)
            return f"companion packages differ too ({pairs}) and could not be swapped: {error}"
        with self._judge() as judge:
            return blame(one, two, judge.swapped)

    def _good_side(self, session: ReleaseSession) -> Side:
        if session.version not in self._sides:
            self._sides[session.version] = flip_sides.good_side(session, self._target, self._options.budget)
        return self._sides[session.version]

    def _bad_side(self, session: ReleaseSession) -> Side:
        if session.version not in self._sides:
            self._sides[session.version] = flip_sides.bad_side(session, self._options)
        return self._sides[session.version]


def companions_of(environment: Environment) -> dict[str, str]:
    """Returns the companion packages that a compiled program depends on, with their versions."""
    packages = environment.provenance.get("packages") or {}
    return {name: str(packages[name]) for name in COMPANIONS if name in packages}


def ends(flip: Flip) -> tuple[str, str]:
    """Returns ``(passing release, failing release)``."""
    return (flip.at, flip.after) if flip.kind == "fixed" else (flip.after, flip.at)


def good_build(versions: Versions, bad: str | None = None) -> str | None:
    """Returns the passing release nearest to ``bad`` on the line (or the newest), or None.

    A repro must pass on it.
    """
    good = [row.torch for row in versions.tested if row.verdict is Verdict.GOOD]
    if not good:
        return None
    if bad is None or bad not in versions.line:
        return good[-1]
    place = versions.line.index(bad)
    return min(good, key=lambda version: abs(versions.line.index(version) - place))

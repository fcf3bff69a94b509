"""Finds the smallest piece of source whose exchange moves a failure from one release to its neighbour.

Runs the failing release with pieces of the passing one. If the failure is gone, the mix contains the change.
Delta debugging reduces it: first files, then pieces, then the lines inside them. A mix that fails in another
way is unresolved. Finally the passing release runs with pieces of the failing one.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from accel_lab.core.verdict import Verdict

from .change_result import Change, NoChange
from .companions import PieceId
from .delta import ddmin
from .headers import function_at
from .hunks import Part, hunks_of, left_of
from .pieces import WHOLE, Versions
from .pool import Answer, Candidates, Mixer, OutOfBudget, Pool

#: Maximum times that pieces which break a mix are removed from it.
MOST_BROKEN = 8
#: The search ends after this many answers that do not hold in the other direction.
MOST_ANSWERS = 3
#: So many functions that the culprit names are run one by one if all of them together fail in another way.
MOST_NAMED = 6
#: Shorter words occur in too many names to be useful.
SHORTEST_NAME = 3
DIFF_LINES = 400
_COMPILED = "no change in torch's Python sources fixes the failure: the change is in compiled code"


class ChangeSearch:
    """One search over changed files, grouped as the failing stage's, its neighbours' and all others.

    ``names`` are words of the culprit and of the failure's traceback. Functions whose name contains all parts
    of one of them are tried first.
    """

    def __init__(
        self,
        mixer: Mixer,
        groups: Sequence[Sequence[str]],
        names: Collection[str] = (),
        listener: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._mixer = mixer
        self._groups = groups
        self._names = [_words(name) for name in sorted(names) if len(name) >= SHORTEST_NAME]
        self._listener = listener
        self._runs = 0
        self._pool = Pool(mixer)
        self._places: dict[PieceId, None] = {}
        #: Whether some pieces together failed in another way, by none of them that could be told.
        self._unresolved = False
        #: Pieces that broke a mix; they are in no other mix and are tried alone at the end.
        self._breaking: set[PieceId] = set()
        #: Pieces that broke a mix alone, or would have.
        self._stuck: set[PieceId] = set()
        #: By piece, or by message: the pieces that together broke the mix of a single piece.
        self._causes: dict[PieceId | str, frozenset[PieceId]] = {}

    def run(self) -> Change | NoChange:
        """Runs the search; if the budget ends it, the best change so far has ``complete`` False."""
        best: Change | None = None
        try:
            for first, paths in self._steps():
                for _ in range(MOST_ANSWERS):
                    found = first(paths)
                    if not found:
                        break
                    answer = self._reduced(found)
                    if answer.both_ways is not False:
                        return answer
                    # The failure disappeared for another reason, such as an exception that the script
                    # expects.
                    best = best or answer
                    self._pool.left_out.update(answer.places)
        except OutOfBudget:
            if best is None:
                return self._none("out of time before any mix fixed the failure")
        if best is not None:
            return replace(best, runs=self._all_runs, candidates=len(self._places))
        return self._none(f"{_COMPILED}{self._doubt}")

    @property
    def _doubt(self) -> str:
        """What else it may be if no mix fixed the failure; empty if all pieces were exchanged together."""
        stuck = len((self._stuck & self._breaking) | self._pool.unfit)
        if stuck or self._unresolved:
            some = f"one of {stuck} pieces" if stuck > 1 else "a piece" if stuck else "pieces"
            return f", or in {some} that cannot be exchanged alone"
        return ""

    def _steps(self) -> Iterable[tuple[Callable[[Sequence[str]], list[PieceId]], Sequence[str]]]:
        """Yields how to search which group; the last, all other files, is not even read before the others."""
        for groups in (self._groups[:-1], self._groups[-1:]):
            yield from itertools.product((self._named, self._functions, self._all, self._alone), groups)

    # -- which pieces ----------------------------------------------------------------------------------

    def _candidates(self, paths: Sequence[str]) -> Candidates:
        """Returns the changed pieces of some files that the failing run uses."""
        found = self._pool.candidates(paths)
        self._places.update(dict.fromkeys(found.pieces))
        return found

    def _named(self, paths: Sequence[str]) -> list[PieceId]:
        """Returns functions that the culprit names and that make the failure disappear; empty if none do.

        That costs a run or two, so it comes before anything larger (see :meth:`_steps`).
        """
        found = self._candidates(paths)
        named = [place for place in (*found.functions, *found.at_import) if self._is_named(place)]
        gone = self._gone(named) if named else False
        if gone:
            return named
        if gone is None and 1 < len(named) <= MOST_NAMED:
            return self._one_of(named)
        return []

    def _functions(self, paths: Sequence[str]) -> list[PieceId]:
        """Returns functions of some files that together make the failure disappear; empty if none do.

        What runs only while torch is imported, most of it registrations, is not among them.
        """
        functions = self._candidates(paths).functions
        return self._first(functions, functions)

    def _all(self, paths: Sequence[str]) -> list[PieceId]:
        """Returns any pieces of some files that together make the failure disappear; empty if none do."""
        found = self._candidates(paths)
        return self._first(found.pieces, found.later) if found.later else []

    def _first(self, places: Sequence[PieceId], new: Sequence[PieceId]) -> list[PieceId]:
        """Returns some of the pieces, all or a part of the new ones, that make the failure disappear.

        Parts are tried if all of them together fail in another way.
        """
        if not places:
            return []
        files = dict.fromkeys(path for path, _ in places)
        self._listener(f"{len(places)} changed pieces in {len(files)} files")
        gone, left = self._without_broken(places)
        if gone:
            return left
        if gone is False:
            return []  # all of them together keep the failure, so no subset will remove it
        self._unresolved = True
        return self._in_parts(new)

    def _in_parts(self, group: Sequence[PieceId]) -> list[PieceId]:
        """Returns a part of some pieces that makes the failure disappear; empty if none does.

        A part that fails in another way is halved, between files first; one that keeps the failure is done
        with.
        """
        waiting = deque(_halves(group) or [list(group)])
        while waiting:
            gone, left = self._without_broken(waiting.popleft())
            if gone:
                return left
            if gone is None:
                waiting.extend(_halves(left))
        return []

    def _alone(self, paths: Sequence[str]) -> list[PieceId]:
        """Returns one of the pieces that broke a mix, if alone it makes the failure disappear."""
        return self._one_of([place for place in self._candidates(paths).pieces if place in self._breaking])

    def _one_of(self, places: Sequence[PieceId]) -> list[PieceId]:
        """Returns the first piece that alone makes the failure disappear; empty if none does.

        Those that would break like one that was tried are not tried (:meth:`_note_cause`).
        """
        for place in places:
            if self._breaks_alike(place):
                self._stuck.add(place)
                continue
            answer = self._answer([place])
            if answer.verdict is Verdict.GOOD:
                return [place]
            if _gone(answer.verdict) is None:
                self._stuck.add(place)
                self._note_cause(place, answer)
        return []

    def _note_cause(self, place: PieceId, answer: Answer) -> None:
        """Keeps what broke a mix of one piece; it breaks all others that need it.

        That is the piece with the innermost exchanged line of the traceback, or, if there is none, what all
        pieces that broke with the same message need.
        """
        at, needed = self._pool.broken_at(answer, [place]), self._pool.needed(place)
        if at is not None:
            self._causes[at] = frozenset([at])
        else:
            self._causes[answer.message] = needed & self._causes.get(answer.message, needed)

    def _breaks_alike(self, place: PieceId) -> bool:
        needed = self._pool.needed(place) if self._causes else frozenset()
        return any(cause and cause <= needed for cause in self._causes.values())

    def _is_named(self, place: PieceId) -> bool:
        own = [_words(place[1])] if place[1] != WHOLE else self._words_in_header(place[0])
        return any(words and words <= one for words in self._names for one in own)

    def _words_in_header(self, path: str) -> list[frozenset[str]]:
        """Returns the words of the names of the functions in which a header differs."""
        versions = self._versions(path)
        base, other = versions.base.source, versions.other.source
        return [_words(function_at(base, start + 1)) for start, _, _ in hunks_of(base, other)]

    def _without_broken(self, group: Sequence[PieceId]) -> tuple[bool | None, list[PieceId]]:
        """Whether a group removes the failure, after dropping the pieces that made it fail in another way."""
        self._breaking.update(place for place in group if self._breaks_alike(place))
        left = [place for place in group if place not in self._breaking]
        for _ in range(MOST_BROKEN):
            if not left:
                break
            answer = self._answer(left)
            gone = _gone(answer.verdict)
            broken = self._pool.breaking(answer, left) if gone is None else []
            if not broken:
                if gone is None and len(left) == 1:
                    self._note_cause(left[0], answer)
                return gone, left
            self._breaking.update(broken)
            left = [place for place in left if place not in broken]
        return None, left

    # -- how small -------------------------------------------------------------------------------------

    def _reduced(self, found: list[PieceId]) -> Change:
        best = found
        both_ways: bool | None = None
        texts: dict[PieceId, str] = {}
        try:
            files = list(dict.fromkeys(path for path, _ in found))
            if len(files) > 1:
                kept = ddmin(files, lambda some: self._gone([place for place in found if place[0] in some]))
                best = [place for place in found if place[0] in kept]
            before = len(best)
            best = ddmin(best, lambda some: self._said(some, before))
            both_ways = self._both_ways(best)
            if both_ways is not False:
                needed, texts = self._inside(best)
                if needed != best:
                    best, both_ways = needed, self._both_ways(needed)
            wide = self._class_of(best) if both_ways is not True else []
            if wide and self._gone(wide) and self._both_ways(wide):
                best, texts, both_ways = wide, {}, True
        except OutOfBudget:
            return self._change(best, texts, both_ways, complete=False)
        return self._change(best, texts, both_ways, complete=True)

    def _class_of(self, places: Sequence[PieceId]) -> list[PieceId]:
        """Returns the pieces with all that changed in their classes; empty if that adds nothing.

        Where a release reworked a class, one of its methods works in the other release only with the others.
        """
        found = dict.fromkeys(places)
        for path, key in places:
            versions = self._versions(path)
            owner = versions.owner_of(key)
            mates = [one for one in versions.changed if owner and owner in (one, versions.owner_of(one))]
            found.update(dict.fromkeys((path, one) for one in mates))
        return list(found) if len(found) > len(places) else []

    def _said(self, some: Sequence[PieceId], before: int) -> bool | None:
        self._listener(f"{len(some)} of {before} pieces, in {some[0][0].removeprefix('torch/')}")
        return self._gone(some)

    def _inside(self, places: list[PieceId]) -> tuple[list[PieceId], dict[PieceId, str]]:
        """Returns the pieces of which lines are needed, and their texts with only those lines exchanged.

        A piece that was needed only because another whole piece calls it is dropped.
        """
        bases: dict[PieceId, str] = {}
        parts: list[Part] = []
        for place in places:
            versions = self._versions(place[0])
            base, other = versions.base.by_key.get(place[1]), versions.other.by_key.get(place[1])
            if base is None or other is None:
                parts.append((place, None))
                continue
            bases[place] = base.text
            parts += [(place, hunk) for hunk in hunks_of(base.text, other.text)]
        return left_of(ddmin(parts, lambda some: self._gone(*left_of(some, bases))), bases)

    def _both_ways(self, places: list[PieceId]) -> bool | None:
        chosen = self._pool.chosen(places, failing=False)
        if not self._pool.native_fits(chosen, failing=False):
            return None
        texts = self._pool.texts(chosen, failing=False)
        if texts is None:
            return None
        try:
            self._runs += 1
            verdict = self._mixer.ask(False, texts).verdict
        except OutOfBudget:
            return None
        # A mix that fails in another way neither confirms nor refutes the pieces.
        return {Verdict.BAD: True, Verdict.GOOD: False}.get(verdict)

    def _versions(self, path: str) -> Versions:
        """Returns both versions of a file that has a changed piece."""
        versions = self._mixer.failing(path)
        assert versions is not None
        return versions

    # -- asking ----------------------------------------------------------------------------------------

    def _gone(self, places: Sequence[PieceId], instead: Mapping[PieceId, str] | None = None) -> bool | None:
        """Whether the failing release passes with these pieces; None if it fails in another way."""
        return _gone(self._answer(places, instead).verdict)

    def _answer(self, places: Sequence[PieceId], instead: Mapping[PieceId, str] | None = None) -> Answer:
        chosen = self._pool.chosen(places, failing=True, instead=instead)
        texts = self._pool.texts(chosen, failing=True, instead=instead)
        if texts is None:
            return Answer(verdict=Verdict.SKIP)
        self._runs += 1
        return self._mixer.ask(True, texts)

    # -- the answer ------------------------------------------------------------------------------------

    def _change(
        self, places: list[PieceId], texts: Mapping[PieceId, str], both_ways: bool | None, *, complete: bool
    ) -> Change:
        lines: list[str] = []
        files = []
        chosen = self._pool.chosen(places, failing=True, instead=texts)
        for path, mixed in (self._pool.texts(chosen, failing=True, instead=texts) or {}).items():
            versions = self._versions(path)
            files.append((path, versions.base.source, mixed))
            base = versions.mixed(()).splitlines()
            lines += difflib.unified_diff(
                base, mixed.splitlines(), f"{path} (fails)", f"{path} (passes)", lineterm="", n=3
            )
        if len(lines) > DIFF_LINES:
            lines = [*lines[:DIFF_LINES], f"... {len(lines) - DIFF_LINES} more lines"]
        return Change(
            places=tuple(places),
            diff="\n".join(lines),
            both_ways=both_ways,
            complete=complete,
            runs=self._all_runs,
            candidates=len(self._places),
            files=tuple(files),
        )

    @property
    def _all_runs(self) -> int:
        return self._runs + self._pool.looked

    def _none(self, reason: str) -> NoChange:
        return NoChange(reason=reason, runs=self._all_runs, candidates=len(self._places))


def _gone(verdict: Verdict) -> bool | None:
    return {Verdict.GOOD: True, Verdict.BAD: False}.get(verdict)


def _halves(places: Sequence[PieceId]) -> list[list[PieceId]]:
    """Halves pieces, their files if they are of several; a single piece has no halves."""
    files = list(dict.fromkeys(path for path, _ in places))
    if len(files) > 1:
        first = set(files[: len(files) // 2])
        return [[one for one in places if (one[0] in first) is half] for half in (True, False)]
    middle = len(places) // 2
    return [list(places[:middle]), list(places[middle:])] if middle else []


def _words(name: str) -> frozenset[str]:
    """Splits a name into words: ``TensorVariable.method_item#2`` gives tensor, variable, method, item."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name.partition("#")[0])
    return frozenset(part.lower() for part in parts)

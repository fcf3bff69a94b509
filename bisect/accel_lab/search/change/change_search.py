"""Finds the smallest piece of the sources whose exchange moves a failure from one release to its neighbour.

The failing release is run with pieces of the passing one. A mix after which the failure is gone holds the
change; delta debugging makes it small, first over files, then over pieces, then over the lines inside them.
A mix that fails in another way is no answer. At the end the passing release is run with pieces of the failing
one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from accel_lab.core.verdict import Verdict

from .companions import Chosen, closure
from .delta import smallest
from .pieces import Versions

#: One candidate: the path of a file and the key of a piece in it.
Place = tuple[str, str]
#: Files that are asked one by one where all of them together do not move the failure.
MOST_FILES = 12
#: Answers that do not hold in the other direction, after which the search ends.
MOST_ANSWERS = 3
#: A name of torch's compiled part in a source.
NATIVE = re.compile(r"\b_C\.(\w+)")
#: A shorter name is found in too many functions to mean anything.
SHORTEST_NAME = 3
DIFF_LINES = 400


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What the failing run of the failing release went through."""

    functions: frozenset[Place]
    files: frozenset[str]


class OutOfBudget(Exception):
    """No more runs may be asked."""


class Mixer(Protocol):
    """Both releases, and runs of either with pieces of the other."""

    def failing(self, path: str) -> Versions | None:
        """A file with the failing release as the base; None if it is the same, or only in one of them."""

    def passing(self, path: str) -> Versions | None:
        """The same with the passing release as the base."""

    def native_names(self, failing: bool) -> frozenset[str]:
        """Names of ``torch._C`` that the sources of one release use: what its compiled part surely has."""

    def executed(self, places: Sequence[Place], paths: Sequence[str]) -> Executed | None:
        """Which of these functions the failing run calls, and which files it imports; None: cannot tell."""

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Verdict:
        """How the script ends on one of the releases with these texts in place of its files.

        Raises :class:`OutOfBudget`.
        """


@dataclass(frozen=True, kw_only=True)
class Change:
    """What was found.

    ``places`` are the pieces without which the failing release does not fail, ``diff`` is the smallest
    difference that is left of them. ``both_ways``: with the failing release's pieces the passing one fails;
    None where that was not asked any more. ``complete`` is False where the budget ended the search.
    ``files`` are the changed files as the failing release has them, and with the difference.
    """

    places: tuple[Place, ...]
    diff: str
    both_ways: bool | None
    complete: bool
    runs: int
    candidates: int
    files: tuple[tuple[str, str, str], ...] = ()

    @property
    def main(self) -> Place:
        """The piece to name where there are several: the first that is code."""
        return self.places[0]


@dataclass(frozen=True, kw_only=True)
class NoChange:
    """Why no piece was found."""

    reason: str
    runs: int
    candidates: int


class ChangeSearch:
    """One search over the changed files ``near`` (those of the failing stage) and ``far`` (the others).

    ``names`` are words of the culprit and of the failure's traceback: functions that have one of them in
    their own name are tried first.
    """

    def __init__(
        self,
        mixer: Mixer,
        near: Sequence[str],
        far: Sequence[str],
        names: Collection[str] = (),
        listener: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._mixer = mixer
        self._near = near
        self._far = far
        self._names = frozenset(name.lower() for name in names if len(name) >= SHORTEST_NAME)
        self._listener = listener
        self._runs = 0
        self._places: dict[Place, None] = {}
        self._refuted: set[Place] = set()

    def run(self) -> Change | NoChange:
        """The search; what the budget leaves is handed back with ``complete`` False."""
        best: Change | None = None
        try:
            for _ in range(MOST_ANSWERS):
                found = self._first(self._near) or self._first(self._far)
                if not found:
                    break
                answer = self._reduced(found)
                if answer.both_ways is not False:
                    return answer
                # The failure went away for another reason, such as an exception that the script expects.
                best = best or answer
                self._refuted.update(answer.places)
        except OutOfBudget:
            if best is None:
                return self._none("the time for it was over before any mix of the two made the failure go")
        if best is not None:
            return replace(best, runs=self._runs, candidates=len(self._places))
        return self._none(
            "no piece of torch's Python sources makes the failure go: the change is in compiled code, or in "
            "pieces that cannot be exchanged alone"
        )

    # -- which pieces ----------------------------------------------------------------------------------

    def _first(self, paths: Sequence[str]) -> list[Place]:
        """Candidates of some files that together make the failure go; empty where none do.

        Functions that the culprit names are tried first, then all functions, then also the statements of
        modules and classes. Single files are tried where all files together fail in another way.
        """
        functions, others = self._candidates(paths)
        places = [*functions, *others]
        self._places.update(dict.fromkeys(places))
        if not places:
            return []
        files = list(dict.fromkeys(path for path, _ in places))
        self._listener(f"{len(places)} changed pieces in {len(files)} files")
        named = [place for place in functions if any(name in place[1].lower() for name in self._names)]
        if named and self._gone(named):
            return named
        groups = [functions, places] if functions and others else [places]
        answers = []
        for group in groups:
            answers.append(self._gone(group))
            if answers[-1]:
                return group
        if None not in answers or len(files) == 1:
            return []  # all of them together leave the failure: a part of them will not do more
        single = [
            [place for place in group if place[0] == path] for path in files[:MOST_FILES] for group in groups
        ]
        return next(
            (group for n, group in enumerate(single) if group not in single[:n] and self._gone(group)), []
        )

    def _candidates(self, paths: Sequence[str]) -> tuple[list[Place], list[Place]]:
        """Changed pieces that do something in the failing run: functions, and other statements."""
        changed: list[tuple[Place, bool]] = []
        for path in paths:
            versions = self._mixer.failing(path)
            if versions is None:
                continue
            for key in versions.changed:
                piece = versions.base.by_key.get(key) or versions.other.by_key[key]
                if key in versions.added and piece.inert:
                    continue  # it travels with what needs it
                if piece.inert and not piece.is_function:
                    continue
                if (path, key) in self._refuted or not self._fits((path, key)):
                    continue
                changed.append(((path, key), piece.is_function and key not in versions.added))
        functions = [place for place, is_function in changed if is_function]
        others = [place for place, is_function in changed if not is_function]
        if not changed:
            return [], []
        self._runs += 1
        ran = self._mixer.executed(functions, list(dict.fromkeys(path for (path, _), _ in changed)))
        if ran is None:
            return functions, others
        return (
            [place for place in functions if place in ran.functions],
            [place for place in others if place[0] in ran.files],
        )

    def _fits(self, place: Place) -> bool:
        """Whether a piece and what travels with it need nothing that the compiled part lacks."""
        return self._native_fits(closure(_by_path([place]), self._mixer.failing), failing=True)

    def _native_fits(self, chosen: Chosen, *, failing: bool) -> bool:
        known = self._mixer.native_names(failing)
        for path, keys in chosen.items():
            versions = self._mixer.failing(path) if failing else self._mixer.passing(path)
            texts = (
                (versions.other.by_key[key].text for key in keys if key in versions.other.by_key)
                if versions
                else ()
            )
            if any(name not in known for text in texts for name in NATIVE.findall(text)):
                return False
        return True

    # -- how small -------------------------------------------------------------------------------------

    def _reduced(self, found: list[Place]) -> Change:
        best = found
        try:
            files = list(dict.fromkeys(path for path, _ in found))
            if len(files) > 1:
                kept = smallest(
                    files, lambda some: self._gone([place for place in found if place[0] in some])
                )
                best = [place for place in found if place[0] in kept]
            before = len(best)
            best = smallest(best, lambda some: self._said(some, before))
            texts = self._inside(best)
        except OutOfBudget:
            return self._change(best, {}, None, complete=False)
        return self._change(best, texts, self._both_ways(best), complete=True)

    def _said(self, some: Sequence[Place], before: int) -> bool | None:
        self._listener(f"{len(some)} of {before} pieces, in {some[0][0].removeprefix('torch/')}")
        return self._gone(some)

    def _inside(self, places: list[Place]) -> dict[Place, str]:
        """Texts of the pieces with only those lines exchanged that matter."""
        texts: dict[Place, str] = {}
        for place in places:
            versions = self._mixer.failing(place[0])
            assert versions is not None
            base, other = versions.base.by_key.get(place[1]), versions.other.by_key.get(place[1])
            if base is None or other is None:
                continue
            hunks = _hunks(base.text, other.text)
            if len(hunks) < 2:
                continue

            def gone(some: Sequence[_Hunk], place: Place = place, text: str = base.text) -> bool | None:
                return self._gone(places, {**texts, place: _patched(text, some)})

            kept = smallest(hunks, gone)
            if len(kept) < len(hunks):
                texts[place] = _patched(base.text, kept)
        return texts

    def _both_ways(self, places: list[Place]) -> bool | None:
        chosen = closure(_by_path(places), self._mixer.passing)
        if not self._native_fits(chosen, failing=False):
            return None
        try:
            return self._ask(failing=False, chosen=chosen) is Verdict.BAD
        except OutOfBudget:
            return None

    # -- asking ----------------------------------------------------------------------------------------

    def _gone(self, places: Sequence[Place], instead: Mapping[Place, str] | None = None) -> bool | None:
        """Whether the failing release passes with these pieces; None where it fails in another way."""
        chosen = closure(_by_path(places), self._mixer.failing)
        verdict = self._ask(failing=True, chosen=chosen, instead=instead or {})
        return {Verdict.GOOD: True, Verdict.BAD: False}.get(verdict)

    def _ask(self, *, failing: bool, chosen: Chosen, instead: Mapping[Place, str] | None = None) -> Verdict:
        texts = {}
        for path, keys in chosen.items():
            versions = self._mixer.failing(path) if failing else self._mixer.passing(path)
            if versions is None:
                continue
            own = {key: text for (where, key), text in (instead or {}).items() if where == path}
            texts[path] = versions.mixed(keys, own)
            try:
                compile(texts[path], path, "exec", dont_inherit=True)
            except SyntaxError:
                return Verdict.SKIP
        self._runs += 1
        return self._mixer.ask(failing, texts)

    # -- the answer ------------------------------------------------------------------------------------

    def _change(
        self, places: list[Place], texts: Mapping[Place, str], both_ways: bool | None, *, complete: bool
    ) -> Change:
        lines: list[str] = []
        files = []
        for path, keys in closure(_by_path(places), self._mixer.failing).items():
            versions = self._mixer.failing(path)
            if versions is None:
                continue
            own = {key: text for (where, key), text in texts.items() if where == path}
            base, mixed = versions.mixed(()).splitlines(), versions.mixed(keys, own).splitlines()
            files.append((path, versions.base.source, versions.mixed(keys, own)))
            lines += difflib.unified_diff(
                base, mixed, f"{path} (fails)", f"{path} (passes)", lineterm="", n=3
            )
        if len(lines) > DIFF_LINES:
            lines = [*lines[:DIFF_LINES], f"... {len(lines) - DIFF_LINES} more lines"]
        return Change(
            places=tuple(places),
            diff="\n".join(lines),
            both_ways=both_ways,
            complete=complete,
            runs=self._runs,
            candidates=len(self._places),
            files=tuple(files),
        )

    def _none(self, reason: str) -> NoChange:
        return NoChange(reason=reason, runs=self._runs, candidates=len(self._places))


#: Lines of the base from the first number to the second become these lines.
_Hunk = tuple[int, int, tuple[str, ...]]


def _hunks(base: str, other: str) -> list[_Hunk]:
    one, two = base.split("\n"), other.split("\n")
    matcher = difflib.SequenceMatcher(None, one, two, autojunk=False)
    return [(a, b, tuple(two[c:d])) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _patched(base: str, hunks: Sequence[_Hunk]) -> str:
    lines = base.split("\n")
    for start, end, new in sorted(hunks, reverse=True):
        lines[start:end] = new
    return "\n".join(lines)


def _by_path(places: Sequence[Place]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for path, key in places:
        found.setdefault(path, set()).add(key)
    return {path: frozenset(keys) for path, keys in found.items()}

"""The pieces of two releases that may hold the change, and the texts of the mixes that are asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from accel_lab.core.verdict import Verdict

from .calls import fitted
from .companions import Chosen, Names, closure
from .pieces import Versions

#: One candidate: the path of a file and the key of a piece in it.
Place = tuple[str, str]
#: A name of torch's compiled part in a source.
NATIVE = re.compile(r"\b_C\.(\w+)")


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What the failing run of the failing release went through."""

    functions: frozenset[Place]
    files: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How a mix ended. ``frames`` are the file and the function of each frame of what it raised, outermost
    first."""

    verdict: Verdict
    frames: tuple[tuple[str, str], ...] = ()


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

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
        """How the script ends on one of the releases with these texts in place of its files.

        Raises :class:`OutOfBudget`.
        """


class Pool:
    """The changed pieces of the files that were looked at so far, with what travels with each."""

    def __init__(self, mixer: Mixer) -> None:
        self._mixer = mixer
        self._paths: dict[str, None] = {}
        self._names: dict[bool, Names] = {}
        #: Pieces that are known to be no change, or to break what they are put into.
        self.left_out: set[Place] = set()

    def candidates(self, paths: Sequence[str]) -> tuple[list[Place], list[Place]]:
        """Changed pieces that do something in the failing run: functions, and other statements."""
        if not self._paths.keys() >= set(paths):
            self._paths.update(dict.fromkeys(paths))
            self._names.clear()
        changed: list[tuple[Place, bool]] = []
        for path in paths:
            versions = self._mixer.failing(path)
            if versions is None:
                continue
            for key in versions.changed:
                piece = versions.base.by_key.get(key) or versions.other.by_key[key]
                if key in versions.added and piece.inert and not piece.owner:
                    continue  # it travels with what needs it; a new method may be called by its class's base
                if piece.inert and not piece.is_function:
                    continue  # an import
                if (path, key) in self.left_out or not self._fits((path, key)):
                    continue
                changed.append(((path, key), piece.is_function and key not in versions.added))
        functions = [place for place, is_function in changed if is_function]
        others = [place for place, is_function in changed if not is_function]
        if not changed:
            return [], []
        ran = self._mixer.executed(functions, list(dict.fromkeys(path for (path, _), _ in changed)))
        if ran is None:
            return functions, others
        return (
            [place for place in functions if place in ran.functions],
            [place for place in others if place[0] in ran.files],
        )

    def chosen(
        self, places: Sequence[Place], *, failing: bool, instead: Mapping[Place, str] | None = None
    ) -> dict[str, frozenset[str]]:
        """The pieces with what travels with them, into the failing or into the passing release.

        What was left out does not travel either: a mix that needs it fails again, and that is its answer.
        """
        module = self._mixer.failing if failing else self._mixer.passing
        if failing not in self._names:
            self._names[failing] = Names(found for path in self._paths if (found := module(path)))
        return closure(by_path(places), module, self._names[failing], instead)

    def texts(
        self, chosen: Chosen, *, failing: bool, instead: Mapping[Place, str] | None = None
    ) -> dict[str, str] | None:
        """Each file with the chosen pieces; None where one of them is no Python."""
        texts = {}
        for path, keys in chosen.items():
            versions = self._mixer.failing(path) if failing else self._mixer.passing(path)
            if versions is None:
                continue
            own = {key: fit for key in keys if (fit := _fit(versions, key))}
            own |= {key: text for (where, key), text in (instead or {}).items() if where == path}
            texts[path] = versions.mixed(keys, own)
            try:
                compile(texts[path], path, "exec", dont_inherit=True)
            except SyntaxError:
                return None
        return texts

    def native_fits(self, chosen: Chosen, *, failing: bool) -> bool:
        """Whether the pieces need nothing that the compiled part of that release lacks."""
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

    def _fits(self, place: Place) -> bool:
        """Whether a piece by itself needs nothing that the compiled part lacks."""
        return self.native_fits(by_path([place]), failing=True)


def _fit(versions: Versions, key: str) -> str:
    """The text of a function that takes fewer arguments than callers hand over; empty: as it is."""
    base, other = versions.base.by_key.get(key), versions.other.by_key.get(key)
    if base is None or other is None or not (base.is_function and other.is_function):
        return ""
    text = fitted(base.text, other.text, bool(base.owner))
    return text if text != other.text else ""


def by_path(places: Sequence[Place]) -> dict[str, frozenset[str]]:
    """From each file to the keys of its pieces."""
    found: dict[str, set[str]] = {}
    for path, key in places:
        found.setdefault(path, set()).add(key)
    return {path: frozenset(keys) for path, keys in found.items()}


def raising(frames: Sequence[tuple[str, str]], places: Collection[Place]) -> list[Place]:
    """The pieces of the innermost frame that is one of them; all of that name, as a frame has no class."""
    for file, function in reversed(frames):
        found = [
            place
            for place in places
            if place[0] == file and place[1].partition("#")[0].rpartition(".")[2] == function
        ]
        if found:
            return found
    return []

"""Collects the pieces of two releases that may contain the change, and builds the texts of mixes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from accel_lab.core.outcome import Frame
from accel_lab.core.verdict import Verdict

from .calls import fitted
from .companions import Chosen, Names, PieceId, closure, last_name
from .pieces import Versions, is_python

#: A use of a name of torch's compiled part: of one of its operators, or of its module and what is in that.
_OPERATOR = re.compile(r"\b(?:aten|prims)\.(\w+)")
_NATIVE = re.compile(r"\b_C((?:\.\w+)+)")
_NATIVE_IMPORT = re.compile(r"^[ ]*from torch\._C[\w.]* import (\([^)]*\)|.*)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"\b(\w+)\.(\w+)")
#: A name in a message such as "f() got an unexpected keyword argument", "module 'm' has no attribute 'f'".
_QUOTED = re.compile(r"\b\w+(?=\(\) )|(?<=')\w+(?=')")


@dataclass(frozen=True, kw_only=True)
class ExecutedCode:
    """What the failing run of the failing release executed.

    ``at_import`` are functions that ran only while torch was being imported, ``functions`` the others;
    ``files`` are those that it imported.
    """

    functions: frozenset[PieceId]
    at_import: frozenset[PieceId] = frozenset()
    files: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The changed pieces of some files that take effect in the failing run.

    ``functions`` run while the script is compiled or run, ``at_import`` only while torch is imported;
    ``statements`` are of modules and classes.
    """

    functions: tuple[PieceId, ...] = ()
    at_import: tuple[PieceId, ...] = ()
    statements: tuple[PieceId, ...] = ()

    @property
    def later(self) -> tuple[PieceId, ...]:
        """What is searched after the functions."""
        return (*self.at_import, *self.statements)

    @property
    def pieces(self) -> tuple[PieceId, ...]:
        """All of them, in the order of the search."""
        return (*self.functions, *self.later)

    def without(self, left_out: Collection[PieceId]) -> Candidates:
        """Returns them without some pieces."""
        functions, at_import, statements = (
            tuple(place for place in places if place not in left_out)
            for places in (self.functions, self.at_import, self.statements)
        )
        return Candidates(functions=functions, at_import=at_import, statements=statements)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Result of running a mix; ``message`` and ``frames``, outermost first, are those of its exception."""

    verdict: Verdict
    message: str = ""
    frames: tuple[Frame, ...] = ()


class OutOfBudget(Exception):
    """Raised when no more runs are allowed."""


class Mixer(Protocol):
    """Both releases, and runs of either with pieces of the other."""

    def failing(self, path: str) -> Versions | None:
        """Returns a file with the failing release as the base; None if equal or in neither release."""

    def passing(self, path: str) -> Versions | None:
        """Returns a file with the passing release as the base; None if equal or in neither release."""

    def native_names(self, failing: bool) -> frozenset[str]:
        """Returns the native names (:func:`natives_of`) that a release's sources use, so it has them."""

    def executed(self, places: Sequence[PieceId], paths: Sequence[str]) -> ExecutedCode | None:
        """Returns which functions the failing run calls and which files it imports; None if unknown."""

    def ask(self, failing: bool, texts: Mapping[str, str]) -> Answer:
        """Runs the script on one of the releases with these texts in place of its files.

        Raises :class:`OutOfBudget`.
        """


class Pool:
    """The changed pieces of the files examined so far, each with the pieces that it needs."""

    def __init__(self, mixer: Mixer) -> None:
        self._mixer = mixer
        self._paths: dict[str, None] = {}
        self._names: dict[bool, Names] = {}
        #: By piece: what it needs, itself included.
        self._brought: dict[PieceId, dict[str, frozenset[str]]] = {}
        #: By group of files: what the failing run uses.
        self._used: dict[tuple[str, ...], Candidates] = {}
        #: Runs that found what is used.
        self.looked = 0
        #: Candidates that were dropped because they need a newer compiled part of torch.
        self.unfit: set[PieceId] = set()
        #: Pieces known not to be the change, or to break any mix that contains them.
        self.left_out: set[PieceId] = set()

    def candidates(self, paths: Sequence[str]) -> Candidates:
        """Returns the changed pieces of a group of files that take effect in the failing run."""
        group = tuple(paths)
        if group not in self._used:
            self._used[group] = self._find_used(group)
        return self._used[group].without(self.left_out)

    def _find_used(self, paths: Sequence[str]) -> Candidates:
        if not self._paths.keys() >= set(paths):
            self._paths.update(dict.fromkeys(paths))
            self._names.clear()
            self._brought.clear()
        changed: list[tuple[PieceId, bool]] = []
        for path in paths:
            versions = self._mixer.failing(path)
            if versions is None:
                continue
            for key in versions.changed:
                piece = versions.base.by_key.get(key) or versions.other.by_key[key]
                moved = key in versions.added or key not in versions.other.by_key
                if moved and piece.inert and not piece.owner:
                    # A new definition comes along with what needs it, and without a removed one only what
                    # uses it changes. Methods are another matter: their base class may call them.
                    continue
                if piece.inert and not piece.is_function:
                    continue  # an import
                changed.append(((path, key), piece.is_function and key not in versions.added))
        functions = tuple(place for place, is_function in changed if is_function)
        statements = tuple(place for place, is_function in changed if not is_function)
        if not changed:
            return Candidates()
        if any(is_python(path) for (path, _), _ in changed):  # of headers the text tells what is used
            self.looked += 1
        ran = self._mixer.executed(functions, list(dict.fromkeys(path for (path, _), _ in changed)))
        found = Candidates(functions=functions, statements=statements)
        if ran is not None:
            found = Candidates(
                functions=tuple(place for place in functions if place in ran.functions),
                at_import=tuple(place for place in functions if place in ran.at_import),
                statements=tuple(place for place in statements if place[0] in ran.files),
            )
        newer = [one for one in found.pieces if not self.native_fits(self._brings(one), failing=True)]
        self.unfit.update(newer)
        return found.without(newer)

    def chosen(
        self, places: Sequence[PieceId], *, failing: bool, instead: Mapping[PieceId, str] | None = None
    ) -> dict[str, frozenset[str]]:
        """Returns the pieces and what they need, to put into the failing or the passing release.

        Left-out pieces are not added: a mix that needs one fails, which is its answer.
        """
        module = self._mixer.failing if failing else self._mixer.passing
        if failing not in self._names:
            self._names[failing] = Names(found for path in self._paths if (found := module(path)))
        return closure(by_path(places), module, self._names[failing], instead)

    def texts(
        self, chosen: Chosen, *, failing: bool, instead: Mapping[PieceId, str] | None = None
    ) -> dict[str, str] | None:
        """Returns each file with the chosen pieces; None if one of them is not valid Python."""
        texts = {}
        for path, keys in chosen.items():
            versions = self._mixer.failing(path) if failing else self._mixer.passing(path)
            if versions is None:
                continue
            own = {key: text for (where, key), text in (instead or {}).items() if where == path}
            texts[path] = versions.mixed(keys, _fits(versions, keys) | own)
            if not is_python(path):
                continue
            try:
                compile(texts[path], path, "exec", dont_inherit=True)
            except SyntaxError:
                return None
        return texts

    def breaking(self, answer: Answer, places: Sequence[PieceId]) -> list[PieceId]:
        """Returns the pieces that brought the innermost exchanged line of a traceback.

        The line is in one of them, or in a piece that some of them need. If there is no such line, they are
        the functions that the message names, as their callers lack them or call them in another way; or those
        that brought the name: code that they generate uses it.
        """
        at = self.broken_at(answer, places)
        if at is not None:
            return [at] if at in places else [place for place in places if at in self.needed(place)]
        for name in _QUOTED.findall(answer.message)[::-1]:  # the missing attribute comes last
            for is_cause in (self._is_called, self._brings_called, self._brings_name):
                found = [place for place in places if is_cause(place, name)]
                if found:
                    return found
        return []

    def broken_at(self, answer: Answer, places: Sequence[PieceId]) -> PieceId | None:
        """Returns the exchanged piece with the innermost exchanged line of a traceback, or None."""
        chosen = self.chosen(places, failing=True)
        for frame in reversed(answer.frames):
            versions = self._mixer.failing(frame.file) if frame.file in chosen else None
            if versions is None:
                continue
            keys = chosen[frame.file]
            key = versions.key_at(frame.line, keys, _fits(versions, keys))
            if key in keys:
                return frame.file, key
        return None

    def needed(self, place: PieceId) -> frozenset[PieceId]:
        """Returns the pieces that are exchanged together with a piece, itself included."""
        return frozenset((path, key) for path, keys in self._brings(place).items() for key in keys)

    @staticmethod
    def _is_called(place: PieceId, name: str) -> bool:
        return last_name(place[1]) == name

    def _brings_called(self, place: PieceId, name: str) -> bool:
        return any(last_name(key) == name for keys in self._brings(place).values() for key in keys)

    def _brings_name(self, place: PieceId, name: str) -> bool:
        """Whether a piece, or what it needs, uses a name that the same piece of the release does not use."""
        word = re.compile(rf"\b{name}\b")
        for path, keys in self._brings(place).items():
            versions = self._mixer.failing(path)
            if versions is None:
                continue
            base, other = versions.base.by_key, versions.other.by_key
            using = [key for key in keys if key in other and word.search(other[key].text)]
            if any(key not in base or not word.search(base[key].text) for key in using):
                return True
        return False

    def _brings(self, place: PieceId) -> dict[str, frozenset[str]]:
        if place not in self._brought:
            self._brought[place] = self.chosen([place], failing=True)
        return self._brought[place]

    def native_fits(self, chosen: Chosen, *, failing: bool) -> bool:
        """Whether the pieces use only names of ``torch._C`` and operators that the release has."""
        known = self._mixer.native_names(failing)
        for path, keys in chosen.items():
            versions = self._mixer.failing(path) if failing else self._mixer.passing(path)
            if versions is None:
                continue
            imported = _natively_imported(versions.other.source)
            texts = (versions.other.by_key[key].text for key in keys if key in versions.other.by_key)
            if any(natives_of(text, imported) - known for text in texts):
                return False
        return True


def natives_of(text: str, imported: Collection[str] = ()) -> frozenset[str]:
    """Returns the names of ``torch._C``, of what is in it, and of its operators that a text uses.

    ``imported`` are the names that its file has from ``torch._C``; those that the text imports are added.
    """
    own = _natively_imported(text)
    found = {*_OPERATOR.findall(text), *own}
    found.update(name for chain in _NATIVE.findall(text) for name in chain.split(".") if name)
    if owners := own.union(imported):
        found.update(attribute for owner, attribute in _ATTRIBUTE.findall(text) if owner in owners)
    return frozenset(found)


@lru_cache(maxsize=1024)
def _natively_imported(source: str) -> frozenset[str]:
    return frozenset(name for names in _NATIVE_IMPORT.findall(source) for name in re.findall(r"\w+", names))


def _fits(versions: Versions, keys: Collection[str]) -> dict[str, str]:
    """Returns the texts of the functions that keep the base's signature, by key."""
    return {key: fit for key in keys if (fit := _fit(versions, key))}


def _fit(versions: Versions, key: str) -> str:
    """Returns the other text with the base's signature if callers pass more arguments; empty if unchanged."""
    base, other = versions.base.by_key.get(key), versions.other.by_key.get(key)
    if base is None or other is None or not (base.is_function and other.is_function):
        return ""
    text = fitted(base.text, other.text, bool(base.owner))
    return text if text != other.text else ""


def by_path(places: Sequence[PieceId]) -> dict[str, frozenset[str]]:
    """Maps each file to the keys of its pieces."""
    found: dict[str, set[str]] = {}
    for path, key in places:
        found.setdefault(path, set()).add(key)
    return {path: frozenset(keys) for path, keys in found.items()}

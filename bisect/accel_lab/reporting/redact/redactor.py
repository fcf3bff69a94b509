"""Removes private parts from texts, consistently, and keeps a ledger without the secrets."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from accel_lab.core.private import GENERIC, HIDDEN, Known, Span, distinctive, homes_in, secrets_in, spans
from accel_lab.core.signature import MOST, normalise, unnumbered

from .placeholders import Placeholders
from .python_source import apply, edit_source, names_in, pieces_in
from .this_machine import account_homes, account_names, machine_names

#: Stands for a private part while a message is normalised: no rule knows this word.
_STAND_IN = "PRIVATEPART"
#: Minimum length of a secret that is searched for in other texts, and maximum number of these.
_LEAST, _MOST_LEARNED = 6, 400


class Redactor:
    """Replaces secrets, home directories, users, hosts, addresses and e-mail addresses.

    Texts are learned first: a secret recognised by its context in one of them is replaced in all. The same
    secret gets the same placeholder in every file. Placeholders are plain ASCII without quotes, braces or
    backslashes, so that they fit into any string literal, path or URL. ``words`` are additional words to
    remove; they are replaced everywhere, ignoring case.
    """

    def __init__(
        self,
        *,
        homes: Iterable[str] = (),
        users: Iterable[str] = (),
        hosts: Iterable[str] = (),
        words: Iterable[str] = (),
    ) -> None:
        self._homes = _sorted(home.rstrip("/\\") for home in homes if len(home.rstrip("/\\")) > 1)
        self._users = _sorted(_also_normalised(user for user in users if user.lower() not in GENERIC))
        self._hosts = _sorted(_also_normalised(host for host in hosts if host.lower() not in GENERIC))
        self._words = _sorted(word for word in (word.strip() for word in words) if len(word) >= 2)
        self._learned: set[str] = set()
        self._secrets: set[str] = set()
        self._pieces: set[str] = set()
        self._known: tuple[tuple[int, int, int], Known] | None = None
        self._names = Placeholders()
        self._counts: dict[tuple[str, str], int] = {}
        self._files: dict[tuple[str, str], set[str]] = {}
        self._memo: dict[tuple[Any, ...], tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._found: list[tuple[str, str]] = []
        self.warnings: list[str] = []

    @classmethod
    def for_this_machine(cls, words: Iterable[str] = ()) -> Redactor:
        """Returns a redactor that knows this account and machine."""
        return cls(homes=account_homes(), users=account_names(), hosts=machine_names(), words=words)

    def learn(self, text: str, file: str = "") -> None:
        """Remembers the secrets of a text and the home directories that it mentions, for all texts."""
        self._learned |= homes_in(text)
        if file.endswith((".py", ".pyi")):
            self._pieces.update(piece for piece in self._literals(text) if _LEAST <= len(piece) <= 200)
            if edit_source(text, self._collect, lambda span: "") is not None:
                return
        self._collect(text, "", False)

    def _literals(self, source: str) -> list[str]:
        """Returns the texts of a source's literals, whose home folders an escape hides in its spelling."""
        pieces = pieces_in(source)
        self._learned |= homes_in("\n".join(pieces))
        return pieces

    def learn_value(self, value: Any, key: str = "") -> None:
        """Remembers the secrets and home directories of a JSON value."""
        if isinstance(value, str):
            self._learned |= homes_in(value)
            self._collect(value, f'"{key}": ' if key else "", False)
        elif isinstance(value, dict):
            for name, item in value.items():
                self.learn_value(item, str(name))
        elif isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                self.learn_value(item, _key_of_item(value, number, key))

    def text(self, text: str, file: str, *, before: str = "") -> str:
        """Returns the text with every private part replaced."""
        self._learned |= homes_in(text)
        return self._made(("text", text, before), file, lambda: self._text(text, before))

    def python(self, source: str, file: str) -> str:
        """Redacts Python source inside strings and comments only; other text is redacted as plain text."""
        self._learned |= homes_in(source)
        self._literals(source)
        new = self._made(("python", source, ""), file, lambda: self._python(source))
        if new != source and _compiles(source) and not _compiles(new):
            self.warnings.append(f"{file} does not compile after redaction")
        return new

    def any(self, text: str, file: str) -> str:
        """Redacts a file by its name: Python source as such, everything else as plain text."""
        return self.python(text, file) if file.endswith((".py", ".pyi")) else self.text(text, file)

    def value(self, value: Any, file: str, key: str = "") -> Any:
        """Redacts every string in a JSON value; a key such as ``token`` marks its value as a secret."""
        if isinstance(value, str):
            return self.text(value, file, before=f'"{key}": ' if key else "")
        if isinstance(value, dict):
            return {self.text(str(k), file): self.value(v, file, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [
                self.value(item, file, _key_of_item(value, number, key)) for number, item in enumerate(value)
            ]
        return value

    def message(self, message: str) -> str:
        """Returns a message as a signature compares it: redacted, normalised, with holes for private parts.

        A hole matches any text: a re-run of the redacted script on another machine prints other text there.
        """
        self._learned |= homes_in(message)
        edits = [(span.start, span.end, _stand_in(span)) for span in self._spans(message)]
        said = normalise(apply(message, edits), masked=True)
        if len(said) == MOST:  # perhaps cut inside a stand-in
            part = next((n for n in range(len(_STAND_IN) - 1, 0, -1) if said.endswith(_STAND_IN[:n])), 0)
            said = said[: len(said) - part]
        return said.replace(_STAND_IN, HIDDEN)

    @property
    def names(self) -> tuple[str, ...]:
        """The words removed everywhere: the account's and the machine's names, and ``words``."""
        own = (name for name in (*self._users, *self._hosts) if distinctive(name) and "<" not in name)
        return (*self._words, *own)

    def ledger(self) -> list[dict[str, Any]]:
        """Lists every replacement: kind, placeholder, count and files, never the secret."""
        return [
            {"kind": kind, "placeholder": new, "count": count, "files": sorted(self._files[kind, new])}
            for (kind, new), count in sorted(self._counts.items())
        ]

    def _made(self, key: tuple[str, str, str], file: str, make: Callable[[], str]) -> str:
        """Caches redacted texts: many rungs have the same graph."""
        known = (*key, *self._sizes())
        if known not in self._memo:
            self._found = []
            self._memo[known] = (make(), tuple(self._found))
        new, found = self._memo[known]
        for row in found:
            self._counts[row] = self._counts.get(row, 0) + 1
            self._files.setdefault(row, set()).add(file)
        return new

    def _text(self, text: str, before: str) -> str:
        return apply(text, [(s.start, s.end, self._name(s)) for s in self._spans(text, before)])

    def _python(self, source: str) -> str:
        lowered = source.lower()
        named = any(name.lower() in lowered for name in (*self._users, *self._hosts))
        names = names_in(source) if named else frozenset()
        new = edit_source(
            source,
            lambda text, before, shapes: self._spans(text, before, keep=names, shapes_only=shapes),
            self._name,
        )
        return self._text(source, "") if new is None else new

    def _spans(
        self, text: str, before: str = "", *, keep: frozenset[str] = frozenset(), shapes_only: bool = False
    ) -> list[Span]:
        return spans(text, self._all_known(), before=before, keep=keep, shapes_only=shapes_only)

    def _name(self, span: Span) -> str:
        new = self._names.of(span.kind, span.secret)
        self._found.append((span.kind, new))
        return new

    def _sizes(self) -> tuple[int, int, int]:
        return len(self._learned), len(self._secrets), len(self._pieces)

    def _all_known(self) -> Known:
        """Returns what is known so far, including literals that are part of a secret."""
        if self._known is None or self._known[0] != self._sizes():
            for piece in sorted(self._pieces):
                if _may_be_part(piece) and any(piece in secret for secret in self._secrets):
                    self._secrets.add(piece)
            known = Known(
                homes=self._homes,
                users=self._users,
                hosts=self._hosts,
                learned=frozenset(name for name in self._learned if name.lower() not in GENERIC),
                secrets=_sorted(_also_normalised(self._secrets)),
                words=self._words,
            )
            self._known = self._sizes(), known
        return self._known[1]

    def _collect(self, text: str, before: str, shapes_only: bool) -> list[Span]:
        """Remembers the secrets of a text, and those of their parts that are secrets themselves."""
        if not shapes_only:
            for span in secrets_in(text, before=before):
                parts = [span.secret]
                if span.kind == "private_key":
                    parts = [line for line in span.secret.split("\n") if len(line) >= 20 and " " not in line]
                elif span.kind == "credential" and ":" in span.secret:
                    parts.append(span.secret.partition(":")[2])
                for part in parts:
                    if len(self._secrets) < _MOST_LEARNED and _is_telling(part):
                        self._secrets.add(part)
        return []


def _stand_in(span: Span) -> str:
    """Returns a stand-in that is a path for a home directory, so that the rules for paths still apply."""
    return "/home/" + _STAND_IN if span.kind == "home" and "/" in span.secret else _STAND_IN


def _is_telling(secret: str) -> bool:
    """Whether a secret can be replaced everywhere without hitting ordinary words."""
    if len(secret) < _LEAST or len(secret) > 4_000 or "\n" in secret:
        return False
    return len(secret) >= 12 or not secret.isalpha() or secret != secret.lower()


def _may_be_part(piece: str) -> bool:
    return any(c.isdigit() for c in piece) or (len(piece) >= 8 and piece != piece.lower())


def _also_normalised(words: Iterable[str]) -> Iterable[str]:
    """Yields words and their normalised forms: ``alice7`` is ``alice<n>`` in a normalised message."""
    for word in words:
        if word:
            yield word
            said = unnumbered(word)
            if said != word and len(said.replace("<n>", "")) >= 4 and "<hash>" not in said:
                yield said


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    """Sorts longest first: part of a longer word must not be replaced before it."""
    return tuple(sorted(set(words), key=lambda word: (-len(word), word)))


def _key_of_item(values: list[Any] | tuple[Any, ...], number: int, key: str) -> str:
    """Returns what describes an item of a list: the option before it, else the list's own key."""
    last = values[number - 1] if number else ""
    return last.lstrip("-") if isinstance(last, str) and last.startswith("-") and len(last) < 60 else key


def _compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<redacted>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True

"""Takes what is private out of texts, the same way everywhere, and keeps a ledger that tells no secret."""

from __future__ import annotations

import getpass
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .redact_python import apply, edit_source, names_in
from .redact_rules import DOCUMENTATION, GENERIC, Known, homes_in, spans


class Redactor:
    """Replaces home directories, users, hosts, addresses, tokens and e-mail addresses.

    The same secret gets the same placeholder in every file. Placeholders are plain ASCII without
    quotes, braces or backslashes, so that they fit into any string literal, path or URL.
    """

    def __init__(
        self, *, homes: Iterable[str] = (), users: Iterable[str] = (), hosts: Iterable[str] = ()
    ) -> None:
        self._homes = tuple(
            sorted({h.rstrip("/\\") for h in homes if len(h.rstrip("/\\")) > 1}, key=_longest)
        )
        self._users = tuple(sorted({u for u in users if u and u.lower() not in GENERIC}, key=_longest))
        self._hosts = tuple(sorted({h for h in hosts if h and h.lower() not in GENERIC}, key=_longest))
        self._learned: set[str] = set()
        self._aliases: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._files: dict[tuple[str, str], set[str]] = {}
        self._memo: dict[tuple[str, str, str, int], tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._found: list[tuple[str, str]] = []
        self.warnings: list[str] = []

    @classmethod
    def for_this_machine(cls) -> Redactor:
        """Knows the account and the machine that it runs on."""
        users = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER")}
        try:
            users.add(getpass.getuser())
        except (OSError, KeyError, ImportError):
            pass  # no account for this user id, as in many containers
        hosts = {socket.gethostname(), os.environ.get("HOSTNAME", ""), os.uname().nodename}
        hosts |= {host.split(".", 1)[0] for host in hosts}
        homes = {str(Path.home()), os.path.expanduser("~"), os.environ.get("HOME", "")}
        return cls(homes=homes, users=users, hosts=hosts)

    def learn(self, text: str) -> None:
        """Remembers whose home directories a text mentions, so that other texts are treated alike."""
        self._learned |= homes_in(text)

    def text(self, text: str, file: str, *, before: str = "") -> str:
        """The text with every private part replaced."""
        self.learn(text)
        return self._made(("text", text, before), file, lambda: self._text(text, before))

    def python(self, source: str, file: str) -> str:
        """Python source, changed inside strings and comments only; what is no Python is plain text."""
        self.learn(source)
        new = self._made(("python", source, ""), file, lambda: self._python(source))
        if new != source and _compiles(source) and not _compiles(new):
            self.warnings.append(f"{file} does not compile after redaction")
        return new

    def any(self, text: str, file: str) -> str:
        """By the file's name: Python source as such, everything else as plain text."""
        return self.python(text, file) if file.endswith((".py", ".pyi")) else self.text(text, file)

    def value(self, value: Any, file: str, key: str = "") -> Any:
        """A JSON value with every string in it redacted; a key such as ``token`` tells what its value is."""
        if isinstance(value, str):
            return self.text(value, file, before=f'"{key}": ' if key else "")
        if isinstance(value, dict):
            return {self.text(str(k), file): self.value(v, file, str(k)) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item, file, key) for item in value]
        return value

    def ledger(self) -> list[dict[str, Any]]:
        """Every replacement: kind, placeholder, how often, in which files. Never the secret."""
        return [
            {"kind": kind, "placeholder": new, "count": count, "files": sorted(self._files[kind, new])}
            for (kind, new), count in sorted(self._counts.items())
        ]

    def _made(self, key: tuple[str, str, str], file: str, make: Callable[[], str]) -> str:
        """A text made once: the same graph lies in the folder of many a rung."""
        known = (*key, len(self._learned))
        if known not in self._memo:
            self._found = []
            self._memo[known] = (make(), tuple(self._found))
        new, found = self._memo[known]
        for row in found:
            self._counts[row] = self._counts.get(row, 0) + 1
            self._files.setdefault(row, set()).add(file)
        return new

    def _text(self, text: str, before: str) -> str:
        return apply(text, self._edits(text, before, frozenset()))

    def _python(self, source: str) -> str:
        lowered = source.lower()
        named = any(name.lower() in lowered for name in (*self._users, *self._hosts))
        names = names_in(source) if named else frozenset()
        new = edit_source(source, lambda text, before: self._edits(text, before, names))
        return self._text(source, "") if new is None else new

    def _edits(self, text: str, before: str, spare: frozenset[str]) -> list[tuple[int, int, str]]:
        known = Known(
            homes=self._homes,
            users=self._users,
            hosts=self._hosts,
            learned=frozenset(name for name in self._learned if name.lower() not in GENERIC),
        )
        edits = []
        for span in spans(text, known, before=before, spare=spare):
            new = self._placeholder(span.kind, span.secret)
            self._found.append((span.kind, new))
            edits.append((span.start, span.end, new))
        return edits

    def _placeholder(self, kind: str, secret: str) -> str:
        if kind == "home":
            return self._home(secret)
        if kind == "user":
            return self._alias("user", secret.lower(), "user{}")
        if kind == "host":
            return self._host(secret.lower())
        if kind == "email":
            return self._alias("email", secret.lower(), "person{}@mail.invalid")
        if kind == "ip":
            number = len([1 for k, _ in self._aliases if k == "ip"])
            net = DOCUMENTATION[number // 254 % len(DOCUMENTATION)]
            return self._alias(
                "ip", secret, str(net[number % 254 + 1]) if ":" not in secret else "2001:db8::{}"
            )
        if kind == "mac":
            return self._alias("mac", secret.lower(), "REDACTED_MAC_{}")
        return self._alias(kind, secret, f"REDACTED_{kind.upper()}_{{}}")

    def _home(self, secret: str) -> str:
        """A whole home directory becomes ``/home/userN``; a name from inside a path only ``userN``."""
        if "/" not in secret and "\\" not in secret:
            return self._alias("user", secret.lower(), "user{}")
        name = re.split(r"[/\\]", secret)[-1].lower()
        return "/home/" + self._alias("user", name, "user{}")

    def _host(self, secret: str) -> str:
        """A machine keeps its placeholder with and without its domain."""
        label, _, domain = secret.partition(".")
        alias = self._alias("host", label, "host{}")
        return alias + ".invalid" if domain else alias

    def _alias(self, kind: str, secret: str, form: str) -> str:
        if (kind, secret) not in self._aliases:
            number = 1 + sum(1 for known, _ in self._aliases if known == kind)
            self._aliases[kind, secret] = form.format(number)
        return self._aliases[kind, secret]


def _longest(text: str) -> tuple[int, str]:
    return -len(text), text


def _compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<redacted>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True

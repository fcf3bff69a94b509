"""Replaces a secret by a placeholder: the same one each time, and revealing nothing of it."""

from __future__ import annotations

import re

from accel_lab.core.private import DOCUMENTATION


class Placeholders:
    """Numbers the secrets of each kind in order of appearance."""

    def __init__(self) -> None:
        self._aliases: dict[tuple[str, str], str] = {}

    def of(self, kind: str, secret: str) -> str:
        """Returns the placeholder of one secret."""
        if kind == "home":
            return self._home(secret)
        if kind == "user":
            return self._alias("user", secret.lower(), "user{}")
        if kind == "host":
            return self._host(secret.lower())
        if kind == "email":
            return self._alias("email", secret.lower(), "person{}@mail.invalid")
        if kind == "ip":
            number = len([1 for known, _ in self._aliases if known == "ip"])
            net = DOCUMENTATION[number // 254 % len(DOCUMENTATION)]
            return self._alias(
                "ip", secret, str(net[number % 254 + 1]) if ":" not in secret else "2001:db8::{}"
            )
        if kind in ("mac", "word"):
            return self._alias(kind, secret.lower(), f"REDACTED_{kind.upper()}_{{}}")
        return self._alias(kind, secret, f"REDACTED_{kind.upper()}_{{}}")

    def _home(self, secret: str) -> str:
        """Replaces a home directory by ``/home/userN``; a name from inside a path by ``userN``."""
        if "/" not in secret and "\\" not in secret:
            return self._alias("user", secret.lower(), "user{}")
        name = re.split(r"[/\\]", secret)[-1].lower()
        return "/home/" + self._alias("user", name, "user{}")

    def _host(self, secret: str) -> str:
        """Keeps one placeholder per machine, with and without its domain."""
        label, _, domain = secret.partition(".")
        alias = self._alias("host", label, "host{}")
        return alias + ".invalid" if domain else alias

    def _alias(self, kind: str, secret: str, form: str) -> str:
        if (kind, secret) not in self._aliases:
            number = 1 + sum(1 for known, _ in self._aliases if known == kind)
            self._aliases[kind, secret] = form.format(number)
        return self._aliases[kind, secret]

"""Standard output and error as the lab writes to them: nothing that a stranger wrote works on the terminal.

What a script, a bundle, an adapter or a file's name brings along passes here on its way to the terminal,
whichever command prints it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import click

from accel_lab.core.text import for_terminal
from accel_lab.reporting.schema import plain


class ReaderGone(Exception):
    """Nobody reads what is written. It is no OSError: click makes exit code 1 of that one."""


class Guarded:
    """A text stream whose writes pass :func:`accel_lab.core.text.for_terminal`.

    It has no ``buffer``: click would write to it past this.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"a text stream takes text, not {type(text).__name__}")
        try:
            self._stream.write(_encodable(for_terminal(text), self._stream.encoding))
        except BrokenPipeError:
            raise ReaderGone from None
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise ReaderGone from None

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def _encodable(text: str, encoding: str | None) -> str:
    """The text with what the terminal's encoding lacks shown as escapes."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)


def is_terminal() -> bool:
    """Whether somebody can be asked, and reads the answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_json(value: Any) -> None:
    """A result on standard output as JSON that strict readers take too."""
    click.echo(json.dumps(plain(value), indent=1))


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Let all that is printed pass through :class:`Guarded` for a while."""
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Guarded(stream)) for stream in kept)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


def close_quietly() -> None:
    """Nobody reads standard output any more: let Python's last flush of it not fail as well."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass

"""Guards standard output and error: text from strangers cannot control the terminal.

Text of a script, a bundle, an adapter or a file name passes through :class:`Guarded`, whichever command
prints it.
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
    """The reader of the output is gone. It is not an OSError, because click turns that into exit code 1."""


class Guarded:
    """A text stream that passes every write through :func:`accel_lab.core.text.for_terminal`.

    It has no ``buffer``, because click would write to it directly.
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
    """Escapes characters that the terminal's encoding lacks."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)


def is_terminal() -> bool:
    """Whether both standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def print_json(value: Any) -> None:
    """Prints a value on standard output as strict JSON."""
    click.echo(json.dumps(plain(value), indent=1))


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Replaces standard output and error by :class:`Guarded` streams inside the block."""
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", Guarded(stream)) for stream in kept)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


def close_quietly() -> None:
    """Points standard output to the null device, so that Python's last flush cannot fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        pass

"""Defines ``-v`` and ``--log-file``, which log what the lab does through the standard library's logging.

All loggers are children of ``accel_lab``. Without these options nothing is logged.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from accel_lab.core.errors import UsageError
from accel_lab.core.text import printable

ROOT = logging.getLogger("accel_lab")
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
_FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _OneLine(logging.Formatter):
    """Formats a record on one line and without terminal sequences, because a script may control its text."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record)).replace("\n", "\\n")


class _Terminal(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stderr``, which may be replaced later."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def add_options(command: click.Command, *, variables: bool = False) -> None:
    """Adds ``-v`` and ``--log-file`` to a command, unless it has them.

    With ``variables`` they are also read from ``ACCEL_LAB_VERBOSE`` and ``ACCEL_LAB_LOG_FILE``.
    """
    if any(param.name == "log_file" for param in command.params):
        return
    command.params += [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            is_eager=True,
            envvar="ACCEL_LAB_VERBOSE" if variables else None,
            callback=_verbose,
            help="Say on standard error what is done; -vv says more.",
        ),
        click.Option(
            ["--log-file"],
            metavar="FILE",
            type=click.Path(dir_okay=False),
            expose_value=False,
            is_eager=True,
            envvar="ACCEL_LAB_LOG_FILE" if variables else None,
            callback=_log_file,
            help="Append all that is done to a file.",
        ),
    ]


def _verbose(ctx: click.Context, param: click.Parameter, value: int) -> None:
    if value:
        _add(_Terminal(), _LEVELS[min(value, 2)])


def _log_file(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if not value:
        return
    try:
        handler = logging.FileHandler(Path(value), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"cannot write {value} ({error.strerror}): name another with --log-file") from None
    _add(handler, logging.DEBUG)


def _add(handler: logging.Handler, level: int) -> None:
    """Adds a handler in place of the earlier one of its type: the option closest to the command wins."""
    for other in [one for one in ROOT.handlers if type(one) is type(handler)]:
        ROOT.removeHandler(other)
        other.close()
    handler.setLevel(level)
    handler.setFormatter(_OneLine(_FORM))
    ROOT.addHandler(handler)
    ROOT.setLevel(min(level, ROOT.level or level))


def close() -> None:
    """Removes and closes all handlers."""
    for handler in list(ROOT.handlers):
        ROOT.removeHandler(handler)
        handler.close()

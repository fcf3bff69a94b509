"""The settings that count for a command, and the option that names a file of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from accel_lab.config import Config, load

F = TypeVar("F", bound=Callable[..., Any])

#: What was told already: one process reads the settings more than once.
_reported: set[str] = set()


def config_option(command: F) -> F:
    """``--config FILE``."""
    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="The lab's settings, instead of those found on the way up from here to the repository's root.",
    )(command)


def read_settings(named: str | None = None, *, folder: Path | None = None) -> Config:
    """The settings of ``--config``, else of the working directory; unread files are reported once."""
    config = load(folder or Path.cwd(), Path(named).absolute() if named else None)
    for note in config.notes:
        if note not in _reported:
            _reported.add(note)
            sys.stderr.write(f"accel-lab: {note}\n")
    return config

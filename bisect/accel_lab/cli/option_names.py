"""Lists the commands and options that the settings file and the environment may set."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache

import click

#: Commands that run a program or a model; the others read, remove or trust files, so no settings apply.
SETTABLE = ("bisect", "minimize", "run", "bench", "matrix", "diff", "guards", "capture", "check")
#: Options that concern a single call, replace a confirmation, or send the user's files to another machine.
_NEVER = frozenset(
    {"help", "version", "module", "resume", "config", "yes", "verbose", "log-file", "engine", "store"}
)


def names_of(command: click.Command) -> dict[str, click.Option]:
    """Returns the settable options of a command by their long names."""
    return {
        word[2:]: option
        for option in command.params
        if isinstance(option, click.Option)
        for word in option.opts
        if word.startswith("--") and word[2:] not in _NEVER
    }


@cache
def known() -> Mapping[str, frozenset[str]]:
    """Returns the settable option names of each command; imports the commands."""
    return {name: frozenset(names_of(_command(name))) for name in SETTABLE}


def _command(name: str) -> click.Command:
    module = importlib.import_module(f"accel_lab.cli.commands.{name}_command")
    command: click.Command = module.command
    return command

"""Resolves the settings of a command, and defines ``--config``.

A command-line option overrides the variable ``ACCEL_LAB_<COMMAND>_<OPTION>``, which overrides the settings
file, which overrides the option's default.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

from accel_lab.cli import option_names
from accel_lab.config import Config, GivenOption, load, near
from accel_lab.core.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
LOG = logging.getLogger("accel_lab.settings")

PREFIX = "ACCEL_LAB"
#: Variables that do not belong to an option; ``docs/settings.md`` lists all.
VARIABLES = (
    "ACCEL_LAB_HOME",
    "ACCEL_LAB_DEBUG",
    "ACCEL_LAB_LOG_FILE",
    "ACCEL_LAB_MOCK_ARTIFACTS",
    "ACCEL_LAB_SERVERS",
    "ACCEL_LAB_VERBOSE",
    "ACCEL_LAB_VERIFY",
)
_CLOSE = 0.75

#: Notes that were already printed: one process reads the settings more than once.
_reported: set[str] = set()


def config_option(command: F) -> F:
    """Adds ``--config FILE``; the options in that file become the command's defaults."""
    return _option()(command)


def make_settable(command: click.Command, name: str) -> None:
    """Makes a command read its options from the settings file and the environment; call before parsing."""
    if not any(param.name == "config" for param in command.params):
        command.params.append(click.Option(["--config"], **_config_words(), expose_value=False))
    for option_name, option in option_names.names_of(command).items():
        variable = variable_of(name, option_name)
        known = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
        if variable not in known:
            option.envvar = [*known, variable]


def variable_of(command: str, option: str) -> str:
    """Returns the variable of an option: ``ACCEL_LAB_BISECT_MAX_DISK`` for ``bisect`` and ``max-disk``."""
    return f"{PREFIX}_{command}_{option}".upper().replace("-", "_")


def _option() -> Callable[[F], F]:
    return click.option("--config", **_config_words())


def _config_words() -> dict[str, Any]:
    return {
        "metavar": "FILE",
        "type": click.Path(dir_okay=False),
        "is_eager": True,  # parsed before the options whose defaults it sets
        "callback": _use,
        "help": "The lab's settings, instead of those found on the way up to the repository's root.",
    }


def _use(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Sets the command's defaults from the settings file, and refuses misspelt variables."""
    ctx.meta["accel_lab.config"] = value
    name = ctx.info_name or ""
    if name in option_names.SETTABLE and not ctx.resilient_parsing:
        config = read_settings(value)
        options = option_names.names_of(ctx.command)
        ctx.default_map = {**(ctx.default_map or {}), **_defaults(name, options, config)}
        refuse_unknown_variables(name, options, os.environ)
    return value


def _defaults(command: str, options: dict[str, click.Option], config: Config) -> dict[str, Any]:
    """Returns the defaults by parameter name; a command's own table overrides the common one."""
    given = {key: one for key, one in config.options.get("", {}).items() if key in options} | dict(
        config.options.get(command, {})
    )
    return {str(options[key].name): _value(options[key], one) for key, one in given.items()}


def _value(option: click.Option, given: GivenOption) -> Any:
    """Converts a value for click; relative paths start at the file's folder."""
    value = given.value
    if option.multiple:
        return [str(item) for item in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        raise UsageError(f"{option.opts[0]} takes one value, and {given.folder} gives a list")
    if isinstance(option.type, click.Path) and isinstance(value, str):
        return str(given.folder / Path(value).expanduser())
    return value if option.is_flag else str(value)


def refuse_unknown_variables(command: str, names: Collection[str], environment: Any) -> None:
    """Raises :class:`UsageError` for a variable with the command's prefix that no option reads.

    It also refuses other ``ACCEL_LAB_`` variables that are close to a known name.
    """
    prefix = f"{PREFIX}_{command.upper()}_"
    known = {variable_of(command, name) for name in names}
    for name in environment:
        if name.startswith(prefix) and name not in known:
            raise UsageError(f"there is no variable {name[:80]}{near(name, known)}")
        if name.startswith(f"{PREFIX}_") and name not in VARIABLES:
            ends = [one.removeprefix(f"{PREFIX}_") for one in VARIABLES]
            close = difflib.get_close_matches(name.removeprefix(f"{PREFIX}_"), ends, 1, _CLOSE)
            if close:  # other names may belong to other programs
                raise UsageError(f"there is no variable {name[:80]}: did you mean {PREFIX}_{close[0]}?")


def read_settings(named: str | None = None, *, folder: Path | None = None) -> Config:
    """Reads the settings of ``--config``, else of the working directory; notes are printed once."""
    config = load(folder or Path.cwd(), Path(named).absolute() if named else None, option_names.known)
    for note in config.notes:
        if note not in _reported:
            _reported.add(note)
            sys.stderr.write(f"accel-lab: {note}\n")
    for file in config.origin:
        LOG.info("settings of %s", file)
    return config

"""Defines options that several commands share, and parses ``SCRIPT ARGS`` and ``-m MODULE ARGS``."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from accel_lab.cli.accelerator_settings import set_up_mock
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.files import remove
from accel_lab.core.probe import Limits, Program

#: Key in a context's ``meta``: the folders that a command made, which wrong usage removes again.
RUN_FOLDERS = "accel_lab.run_folders"
F = TypeVar("F", bound=Callable[..., Any])


class ProgramCommand(click.Command):
    """A command whose own options end at the program; all later words belong to the program.

    ``-m MODULE`` ends the options too, as it does for Python itself.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["context_settings"] = {"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]}
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for place, word in enumerate(args):
            if word == "-m" and not self._program_before(ctx, args[:place]):
                if place + 1 >= len(args):
                    raise UsageError("-m needs the name of a module")
                args = [*args[:place], "--module", args[place + 1], "--", *args[place + 2 :]]
                break
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        set_up_mock(ctx.meta.get("accel_lab.config"))
        try:
            return super().invoke(ctx)
        except UsageError:  # the command did nothing, so its folders are removed
            for folder in ctx.meta.pop(RUN_FOLDERS, ()):
                remove(folder)
            raise

    def _program_before(self, ctx: click.Context, head: list[str]) -> bool:
        """Whether a script comes before this point, so that a later ``-m`` is an argument of the script."""
        try:
            values, rest, _ = self.make_parser(ctx).parse_args(list(head))
        except click.UsageError:
            return False
        # Releases of click differ in where they put it and in their object for a missing argument.
        return bool(rest) or (bool(values.get("program")) and isinstance(values["program"], tuple))


def program_options(command: F) -> F:
    """Adds ``SCRIPT [ARGS]...`` or ``-m MODULE [ARGS]...`` and the options for running it."""
    for decorate in reversed(
        (
            click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]..."),
            click.option(
                "--module", "-m", metavar="MODULE", help="Run a module as `python -m` does; ARGS follow."
            ),
            click.option(
                "--python",
                metavar="PATH",
                help="The interpreter to probe; it needs torch. [default: this one]",
            ),
            click.option(
                "--timeout",
                type=Number(1, MAX_SECONDS),
                default=300.0,
                show_default=True,
                help="Seconds for one run.",
            ),
            click.option(
                "--memory",
                type=click.IntRange(64, MAX_MB),
                default=16384,
                show_default=True,
                help="Memory limit of one run, in MB.",
            ),
            click.option(
                "--max-disk",
                type=click.IntRange(min=16),
                default=Limits.disk_mb,
                show_default=True,
                help="MB that one run may write, all files together.",
            ),
            click.option(
                "--stdin",
                type=click.Path(exists=True, dir_okay=False),
                help="A file to give as standard input.",
            ),
        )
    ):
        command = decorate(command)
    return command


def job_options(command: F) -> F:
    """Adds the options for the oracle, the run's folder and the probes."""
    for decorate in reversed(
        (
            click.option(
                "--out",
                type=click.Path(file_okay=False),
                help="Where to make the run's folder. [default: the user's data folder]",
            ),
            click.option(
                "--check",
                metavar="CMD",
                help="Judge each run by a shell command: exit 0 good, 125 cannot tell, else bad.",
            ),
            click.option("--fail-regex", metavar="RE", help="A run is bad if this matches what it printed."),
            click.option("--signed-zero", is_flag=True, help="Count -0.0 against 0.0 as a difference."),
            click.option(
                "--cold", is_flag=True, help="Run every probe in a fresh process, never in the warm server."
            ),
            click.option("--keep", is_flag=True, help="Keep each probe's working directory and caches."),
            click.option("--bundle/--no-bundle", default=True, help="Write bundle.zip."),
            click.option(
                "--verify/--no-verify",
                default=True,
                envvar="ACCEL_LAB_VERIFY",
                help="Run the bundle once from a clean folder before it is handed out: one cold run.",
            ),
            click.option(
                "--resume",
                metavar="RUN",
                type=click.Path(exists=True, file_okay=False),
                help="Go on with an interrupted run's folder.",
            ),
            click.option(
                "--package",
                metavar="DIR",
                type=click.Path(exists=True, file_okay=False),
                help="A folder whose modules the script imports: they are copied into the smallest script.",
            ),
            click.option(
                "--jobs",
                type=click.IntRange(1, 16),
                default=2,
                show_default=True,
                help="Probes that run in parallel.",
            ),
            click.option(
                "--fresh", is_flag=True, help="Use no warm server that an earlier run left, and leave none."
            ),
            click.option(
                "--keep-server",
                type=Duration(),
                help="Keep a process with torch imported for the next run on this build, until it has been "
                "idle this long; 0: none. [default: 10m at a terminal, else 0]",
            ),
            click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON."),
            click.option("-q", "--quiet", is_flag=True, help="No progress, no tables."),
        )
    ):
        command = decorate(command)
    return command


#: Upper bounds: more than any run needs, less than the system's clocks and limits overflow at.
MAX_SECONDS = 30 * 86_400.0
MAX_DAYS = 36_500.0
MAX_MB = 1 << 24


class Number(click.FloatRange):
    """A finite number between two inclusive bounds; NaN and infinities are refused."""

    def __init__(self, low: float, high: float) -> None:
        super().__init__(min=low, max=high)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        return number


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time such as ``90``, ``90s``, ``5m`` or ``1h``, converted to seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a time: write 90, 90s, 5m or 1h", param, ctx)
        seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
        if seconds > MAX_SECONDS:
            self.fail(f"{value!r} is too long: at most {MAX_SECONDS / 3600:.0f}h", param, ctx)
        return seconds


def split_program(module: str | None, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Splits the words into ``(script or None, arguments)``. Raises :class:`UsageError` without a program."""
    if module is not None:
        return None, words
    if not words:
        context = click.get_current_context(silent=True)
        command = context.info_name if context is not None else "bisect"
        raise UsageError(f"name a script: accel-lab {command} SCRIPT (or a module: -m MODULE)")
    return words[0], words[1:]


def limits_from(timeout: float, memory: int, max_disk: int | None = None) -> Limits:
    """Returns the limits of one run, from seconds and MB."""
    limits = Limits(timeout_s=timeout, memory_mb=memory)
    return limits if max_disk is None else replace(limits, disk_mb=max_disk)


def find_python(python: str | None) -> str:
    """Returns the absolute path of the interpreter. Raises :class:`UsageError` if it is not executable.

    Links are not resolved, because a virtual environment is recognized by the link.
    """
    import os
    import sys

    if python is None:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise UsageError(f"{python} is not an interpreter that can be run: name a Python with --python")
    return os.path.abspath(found)


def read_stdin(path: str | None) -> Path | None:
    """Returns the absolute path of the file for standard input, or None."""
    return Path(path).resolve() if path else None


__all__ = [
    "MAX_DAYS",
    "MAX_MB",
    "MAX_SECONDS",
    "Duration",
    "Number",
    "Program",
    "ProgramCommand",
    "find_python",
    "job_options",
    "limits_from",
    "program_options",
    "read_stdin",
    "split_program",
]

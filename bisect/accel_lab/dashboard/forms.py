"""Reads a form's fields within limits, and turns them into a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from starlette.requests import Request

from accel_lab.core.text import printable

from .places import NotThere, Places, script_inside

_MOST_BYTES, _MOST_FIELDS, _MOST_VALUE, _MOST_ARGUMENTS = 64 << 10, 64, 4096, 200
_TYPE = "application/x-www-form-urlencoded"
_TIME = r"\d+(\.\d+)?[smh]?"


class Misused(Exception):
    """A request that none of our forms sends; ``status`` is the HTTP status of the answer."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of ``accel-lab bisect`` in the form.

    ``name`` is the long option. ``pattern`` is the form of a value; ``choices`` are all allowed values; a
    ``flag`` has no value. The command line itself checks what a value means.
    """

    name: str
    label: str
    hint: str = ""
    pattern: str = ""
    example: str = ""
    choices: tuple[str, ...] = ()
    flag: bool = False


OPTIONS = (
    Option(
        name="budget",
        label="Time for the bisection",
        pattern=_TIME,
        example="5m",
        hint="At its end the best answer so far is reported. Empty: no limit.",
    ),
    Option(name="timeout", label="Time for one run", pattern=r"\d+(\.\d+)?", example="300", hint="Seconds."),
    Option(name="memory", label="Memory for one run", pattern=r"\d+", example="16384", hint="MB."),
    Option(
        name="minimize-for",
        label="Time to minimize it",
        pattern=_TIME,
        example="120s",
        hint="For the smallest script and graph that still fail.",
    ),
    Option(
        name="versions",
        label="Releases of torch",
        pattern=r"[\w.,+]+",
        example="2.4..2.15",
        hint="Also find the releases that introduced and fixed the failure. Cannot be combined with a time "
        "limit.",
    ),
    Option(
        name="accelerator",
        label="Accelerator",
        pattern=r"[A-Za-z][\w.-]*",
        example="mock",
        hint="Which part of its compiler fails?",
    ),
    Option(
        name="fail-regex",
        label="A run is bad if it prints",
        pattern=r".+",
        example="mismatch at",
        hint="A regular expression. Empty: the lab looks for the failure itself.",
    ),
    Option(name="ablation", label="Switches in the kernel stage", choices=("short", "full")),
    Option(name="cold", label="Every run in a fresh process", flag=True),
    Option(name="signed-zero", label="-0.0 differs from 0.0", flag=True),
    Option(name="no-minimize", label="Do not minimize the script", flag=True),
    Option(name="no-workarounds", label="Look for no workaround", flag=True),
)


async def read_form(request: Request) -> dict[str, str]:
    """Reads the fields of a form, the first value of each. Raises :class:`Misused` for anything else."""
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != _TYPE:
        raise Misused("A form was expected.", 415)
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > _MOST_BYTES:
            raise Misused("The form is too large.", 413)
    try:
        pairs = parse_qsl(
            data.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise Misused("The form cannot be read.") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    return fields


def bisection_of(fields: Mapping[str, str], places: Places) -> tuple[Path, tuple[str, ...]]:
    """Returns the script, and the words after ``accel-lab`` that bisect it.

    Nothing that the user typed can be taken for an option: each value is joined to its option, and the
    script's absolute path comes after ``--``, followed by its arguments. Raises :class:`NotThere` and
    :class:`Misused`.
    """
    script = script_inside(_value(fields, "script"), places.roots)
    python = _value(fields, "python") or places.pythons[0]
    if python not in places.pythons:
        raise Misused("That interpreter was not named when the dashboard was started (--python).")
    words = [f"--out={places.new_runs}", f"--python={python}"]
    for option in OPTIONS:
        value = _value(fields, option.name)
        if not value:
            continue
        if option.flag:
            words.append(f"--{option.name}")
        elif option.choices and value not in option.choices:
            raise Misused(f"{option.label}: choose one of {', '.join(option.choices)}.")
        elif option.pattern and not re.fullmatch(option.pattern, value):
            raise Misused(f"{option.label}: invalid value {value!r}; for example: {option.example}.")
        else:
            words.append(f"--{option.name}={value}")
    return script, ("bisect", *words, "--", str(script), *_arguments(_value(fields, "arguments")))


def _arguments(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Misused(f"Arguments: {error}.".lower().capitalize()) from None
    if len(words) > _MOST_ARGUMENTS:
        raise Misused(f"Arguments: {_MOST_ARGUMENTS} at most.")
    return words


def _value(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "").strip()
    if len(value) > _MOST_VALUE or printable(value) != value or "\n" in value:
        raise Misused(f"{name}: that is too long, or contains invalid characters.")
    return value


__all__ = ["OPTIONS", "Misused", "NotThere", "Option", "bisection_of", "read_form"]

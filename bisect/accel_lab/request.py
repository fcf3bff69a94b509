"""The options of one bisection, and the folder of its run."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.machine.places import state_folder
from accel_lab.core.probe import Limits, Program
from accel_lab.core.record import Record, json_property
from accel_lab.execution.notebooks import as_script
from accel_lab.execution.programs import read_program
from accel_lab.execution.run_folder.marker import mark
from accel_lab.lab import Oracle
from accel_lab.numerics.tolerances import ComparisonConfig
from accel_lab.search.diagnosis import Options
from accel_lab.versions.line import VersionsRequest

#: The run folders that this process made or opened.
_current: list[Path] = []


@dataclass(frozen=True, kw_only=True)
class Request(Record):
    """All options of one bisection.

    ``minimize_s`` and ``workarounds_s`` are seconds, 0 turns the step off. ``workarounds_s`` of None means a
    share of the bisection's time.
    """

    program: Program
    python: str = sys.executable
    out: Path | None = None
    limits: Limits = field(default_factory=Limits)
    oracle: Oracle = field(default_factory=Oracle)
    options: Options = field(default_factory=Options)
    cold: bool = False
    stdin: Path | None = None
    workers: int = 2
    keep: bool = False
    minimize_s: float = 0.0
    workarounds_s: float | None = 0.0
    package: Path | None = None
    accelerator: str = ""
    versions: VersionsRequest | None = None

    @property
    @json_property(after="versions")
    def cwd(self) -> str:
        """The working directory of the lab when the request is written."""
        return os.getcwd()


def new_run_folder(request: Request, command: str = "bisect") -> Path:
    """Makes a run folder under ``--out`` or the state folder; raises :class:`LabError` if it cannot."""
    base = request.out if request.out is not None else state_folder() / "runs"
    name = re.sub(r"[^\w.-]+", "-", request.program.name).strip("-.") or "run"
    return new_folder(base, name, "run folder", command)


def opened(request: Request, command: str = "bisect") -> tuple[Request, Path]:
    """Makes the run's folder, with a notebook as a script in it; returns the new request and the folder."""
    folder = new_run_folder(request, command)
    program = as_script(request.program, folder)
    if program.path is not None and program.origin:
        program = replace(read_program(program.path, None, program.args), origin=program.origin)
    return replace(request, program=program), folder


def new_folder(base: Path, name: str, what: str, command: str) -> Path:
    """Makes a uniquely named folder in ``base`` (name, time, random digits) and marks it with ``command``.

    ``what`` names the folder in the error. Raises :class:`LabError` if the folder cannot be made.
    """
    folder = base / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LabError(
            f"cannot make the {what} {folder} ({error.strerror}): choose another with --out"
        ) from None
    mark(folder, command)
    _current.append(folder)
    return folder


def current_folder() -> Path | None:
    """Returns the run folder that this process made or opened last, or None."""
    return _current[-1] if _current else None


def load_request(folder: Path) -> Request:
    """Loads the request of an earlier run; raises :class:`UsageError` if it is missing or damaged."""
    _current.append(folder)
    try:
        data = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise UsageError(
            f"{folder} is not the folder of an accel-lab run: it holds no request.json"
        ) from None
    try:
        return _request_of(data)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(f"{folder / 'request.json'} is damaged: start a new run") from None


def _request_of(data: dict[str, Any]) -> Request:
    asked = Request.from_json(data if "oracle" in data else _nested(data))
    program = asked.program
    again = read_program(program.path, program.module, program.args)
    if again.sha256 != program.sha256:
        raise UsageError(f"{again.name} has changed since that run: start a new one")
    return replace(asked, program=replace(again, origin=program.origin))


def _nested(data: dict[str, Any]) -> dict[str, Any]:
    """Converts a request from before ``oracle`` and ``options`` were records."""
    comparison = ComparisonConfig(signed_zero=data["signed_zero"])
    return {
        **data,
        "oracle": {**Oracle(comparison=comparison).to_json(), **_some(data, "check", "fail_regex")},
        "options": _some(data, "ablation", "components"),
    }


def _some(data: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: data[name] for name in names}

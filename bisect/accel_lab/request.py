"""What one bisection is asked for, and the folder that it keeps all of it in."""

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

import platformdirs

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.probe import Limits, Program
from accel_lab.execution.notebooks import as_script
from accel_lab.execution.programs import read_program
from accel_lab.execution.run_folder.marker import mark
from accel_lab.lab import Oracle
from accel_lab.search.diagnosis import Options
from accel_lab.versions.line import VersionsRequest

#: The folders of runs that this process made or opened.
_current: list[Path] = []


@dataclass(frozen=True, kw_only=True)
class Request:
    """All that one bisection is asked for."""

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
    package: Path | None = None
    accelerator: str = ""
    versions: VersionsRequest | None = None

    def to_json(self) -> dict[str, Any]:
        """What a resumed run needs to ask the same questions again."""
        return {
            "program": self.program.to_json(),
            "python": self.python,
            "limits": self.limits.to_json(),
            "check": self.oracle.check,
            "fail_regex": self.oracle.fail_regex,
            "signed_zero": self.oracle.comparison.signed_zero,
            "ablation": self.options.ablation,
            "components": self.options.components,
            "cold": self.cold,
            "stdin": str(self.stdin) if self.stdin else None,
            "workers": self.workers,
            "minimize_s": self.minimize_s,
            "package": str(self.package) if self.package else None,
            "accelerator": self.accelerator,
            "versions": self.versions.to_json() if self.versions is not None else None,
            "cwd": os.getcwd(),
        }


def state_folder() -> Path:
    """Where runs are kept unless ``--out`` says otherwise: ``ACCEL_LAB_HOME`` or the user's data folder."""
    home = os.environ.get("ACCEL_LAB_HOME")
    return Path(home) if home else Path(platformdirs.user_data_dir("accel-lab"))


def new_run_folder(request: Request) -> Path:
    """A new folder for a run, under ``--out`` or the state folder."""
    base = request.out if request.out is not None else state_folder() / "runs"
    name = re.sub(r"[^\w.-]+", "-", request.program.name).strip("-.") or "run"
    return new_folder(base, name, "run folder")


def opened(request: Request) -> tuple[Request, Path]:
    """The request with a folder for its run, in which a notebook lies as a script."""
    folder = new_run_folder(request)
    program = as_script(request.program, folder)
    if program.path is not None and program.origin:
        program = replace(read_program(program.path, None, program.args), origin=program.origin)
    return replace(request, program=program), folder


def new_folder(base: Path, name: str, what: str) -> Path:
    """A folder in ``base`` that nobody has: its name ends with the time and a few random digits."""
    folder = base / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LabError(
            f"cannot make the {what} {folder} ({error.strerror}): choose another with --out"
        ) from None
    mark(folder, what)
    _current.append(folder)
    return folder


def current_folder() -> Path | None:
    """The run's folder that this process made or opened last; None before it has one."""
    return _current[-1] if _current else None


def load_request(folder: Path) -> Request:
    """The request of an earlier run, to resume it; raises :class:`UsageError` if the folder holds none."""
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
    program = data["program"]
    again = read_program(program["path"], program["module"], tuple(program["args"]))
    if again.sha256 != program["sha256"]:
        raise UsageError(f"{again.name} has changed since that run: start a new one")
    base = Request(program=replace(again, origin=program.get("origin", "")))
    return replace(
        base,
        python=data["python"],
        limits=Limits(**data["limits"]),
        oracle=Oracle(
            check=data["check"],
            fail_regex=data["fail_regex"],
            comparison=replace(base.oracle.comparison, signed_zero=data["signed_zero"]),
        ),
        options=replace(base.options, ablation=data["ablation"], components=data["components"]),
        cold=data["cold"],
        stdin=Path(data["stdin"]) if data["stdin"] else None,
        workers=data["workers"],
        minimize_s=data.get("minimize_s", 0.0),
        package=Path(data["package"]) if data.get("package") else None,
        accelerator=data.get("accelerator", ""),
        versions=VersionsRequest.from_json(data["versions"]) if data.get("versions") else None,
    )

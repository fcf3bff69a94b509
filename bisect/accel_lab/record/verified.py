"""Verifies a capsule: writes its script and runs it in a fresh process to reproduce the job's failure.

A capsule was written by a job, so it is read as an untrusted file. It has no pickle; the script consists of
names that plain torch resolves and of tensors in safetensors files.
"""

from __future__ import annotations

import ast
import json
import math
import os
import shutil
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.files import write_atomic
from accel_lab.core.probe import Limits
from accel_lab.core.process_exit import ProcessExit
from accel_lab.core.text import command_line, shorten
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError, refuse_malformed
from accel_lab.execution.processes import process
from accel_lab.execution.programs import CAPSULE as NAME
from accel_lab.execution.programs import CAPSULE_SCRIPT as SCRIPT
from accel_lab.minimize.graphs import checks_for
from accel_lab.reduction.graph.emit import DIFFERS, Check, emit
from accel_lab.reduction.graph.load import load_capture, program_of

#: Time limit of a verifying run, in seconds.
TIMEOUT_S = 300.0
_NUMBER = (None, float, str)
_SHAPE = {
    "schema": str,
    "kind": str,
    "call": int,
    "rows": [{"what?": (None, str), "error?": _NUMBER, "eager?": _NUMBER, "values?": (None, str)}],
    "error?": (None, {"type": str, "message": str}),
    "stand_ins": bool,
    "reason": str,
    "rank": str,
    "time": str,
    "torch": str,
    "python": str,
    "settings": {},
    "verified?": (None, bool),
    "said?": str,
}


@dataclass(frozen=True, kw_only=True)
class Capsule:
    """The content of ``capsule.json``; ``verified`` is None until the script has run in a fresh process."""

    folder: Path
    data: dict[str, Any]

    @property
    def verified(self) -> bool | None:
        return self.data.get("verified")

    @property
    def verification(self) -> str:
        return str(self.data.get("said") or "")

    @property
    def description(self) -> str:
        """Describes the failure in one line."""
        data = self.data
        where = f"call {data['call']} of a graph" if data["call"] else "a graph as it was compiled"
        rank = f", rank {data['rank']}" if data["rank"] else ""
        if data["kind"] == "wrong":
            row = data["rows"][0] if data["rows"] else {}
            error, eager = row.get("error"), row.get("eager")
            sizes = f" (error {_spell(error)}, eager's own {_spell(eager)})" if error is not None else ""
            return f"{where} returned a wrong {row.get('what') or 'value'}{sizes}{rank}"
        if data["kind"] == "raises":
            error = data.get("error") or {}
            return f"{where} raised {error.get('type')}: {shorten(str(error.get('message')), 120)}{rank}"
        return f"{where} took too long{rank}"


def is_capsule(folder: Path) -> bool:
    """Whether a folder has a ``capsule.json``."""
    return (folder / NAME).is_file()


def read_capsule(folder: Path) -> Capsule:
    """Reads a capsule; raises :class:`UsageError` if the folder is not a valid one."""
    try:
        data = ChildFiles(folder).json(NAME, _SHAPE)
    except UntrustedFileError as error:
        raise UsageError(f"{folder / NAME} is not a capsule's: {error}") from None
    if data is None:
        raise UsageError(f"{folder} is not a capsule of accel-lab record: it holds no {NAME}")
    return Capsule(folder=folder, data=data)


def finish_capsule(folder: Path, python: str, *, timeout_s: float = TIMEOUT_S) -> Capsule:
    """Writes the capsule's ``repro.py``, runs it in a fresh process of ``python``, and saves the result.

    Raises :class:`UsageError` if the folder is not a capsule.
    """
    capsule = read_capsule(folder)
    verified, said = _verify(capsule, python, timeout_s)
    data = {**capsule.data, "verified": verified, "said": said}
    write_atomic(folder / NAME, json.dumps(data, indent=1))
    return Capsule(folder=folder, data=data)


def _verify(capsule: Capsule, python: str, timeout_s: float) -> tuple[bool, str]:
    reason = capsule.data["reason"]
    if reason:
        return False, f"its graph cannot be written as a script: {reason}"
    try:
        captured = load_capture(capsule.folder / "graph0.json")
        if captured.reason:
            return False, f"its graph cannot be written as a script: {captured.reason}"
        with refuse_malformed("the captured graph"):
            program = program_of(captured)
    except UntrustedFileError as error:
        return False, f"its graph was not read: {error}"
    said = ""
    for check in _checks(capsule):
        source = _with_settings(emit(program, check).source, capsule)
        write_atomic(capsule.folder / SCRIPT, source)
        ended, stderr = _run(capsule.folder, python, timeout_s)
        reproduced = _reproduced(capsule, ended, stderr)
        if reproduced:
            return True, f"the graph alone reproduces the failure, in a fresh process ({_how(ended)})"
        if ended.limit is not None:
            again = command_line("accel-lab", "verify", "--timeout", f"{4 * timeout_s:g}", capsule.folder)
            return False, f"verification was stopped ({ended.limit}): retry with `{again}`"
        said = f"the graph alone does not reproduce the failure ({_how(ended)})"
    return False, said


def _checks(capsule: Capsule) -> tuple[Check, ...]:
    data = capsule.data
    if data["kind"] != "wrong":
        return (Check(kind="raises"),)
    errors = [row["error"] for row in data["rows"] if isinstance(row.get("error"), (int, float))]
    return checks_for(max((abs(e) for e in errors if math.isfinite(e)), default=0.0))


def _reproduced(capsule: Capsule, ended: ProcessExit, stderr: str) -> bool:
    """Whether the run reproduces the job's failure."""
    kind = capsule.data["kind"]
    if kind == "hangs":
        return ended.limit == "timeout"
    if kind == "wrong":
        return ended.exit_code not in (0, None) and DIFFERS in stderr
    name = str((capsule.data.get("error") or {}).get("type", "")).rpartition(".")[2]
    return ended.signal is not None or (ended.exit_code not in (0, None) and bool(name) and name in stderr)


def _run(folder: Path, python: str, timeout_s: float) -> tuple[ProcessExit, str]:
    """Runs the script in a fresh process with its own compiler caches; returns how it ended and stderr."""
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as temporary:
        place = Path(temporary)
        env = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(place / "cache"),
            "TRITON_CACHE_DIR": str(place / "triton"),
        }
        ended = process.run(
            [python, str(folder / SCRIPT)],
            cwd=place,
            env=env,
            stdout=place / "out.txt",
            stderr=place / "err.txt",
            limits=Limits(timeout_s=timeout_s),
            marker=f"capsule-{uuid.uuid4().hex}",
        )
        for name in ("out.txt", "err.txt"):
            shutil.copyfile(place / name, folder / name)
    return ended, ChildFiles(folder).tail("err.txt", 200_000) or ""


def _how(ended: ProcessExit) -> str:
    if ended.limit is not None:
        return f"it was ended: {ended.limit}"
    return f"signal {ended.signal}" if ended.signal is not None else f"exit {ended.exit_code}"


def _with_settings(source: str, capsule: Capsule) -> str:
    """Adds a header about the script's origin, and the job's compiler settings."""
    data = capsule.data
    head = [
        f"# Kept by accel-lab record from a job on torch {data['torch']}, Python {data['python']}: "
        f"{' '.join(capsule.description.split())}",
        *(["# Its inputs were drawn at random: the compiler failed first."] if data["stand_ins"] else []),
    ]
    settings = sorted((str(k), str(v)) for k, v in data["settings"].items() if _is_setting(str(k), str(v)))
    modules = sorted({name[: name.index(".config") + len(".config")] for name, _ in settings})
    lines = [f"import {name}" for name in modules]
    lines += [f"{name} = {value}" for name, value in settings]
    first, rest = source.split("\n\n\n", 1)
    middle = "\n".join(lines)
    head = [" ".join(line.split()) for line in head]  # untrusted text must stay within one comment line
    return "\n".join(head) + "\n" + first + ("\n\n" + middle if middle else "") + "\n\n\n" + rest


#: Words in names of settings that do not affect results, or that the recorder itself may change.
_LEFT_OUT = ("cache", "compile_threads", "debug", "verbose", "log", "trace")


def _is_setting(name: str, value: str) -> bool:
    """Whether an entry is only an assignment of a literal to a compiler setting."""
    parts = name.split(".")
    if not (parts[0] == "torch" and "config" in parts[1:-1] and all(part.isidentifier() for part in parts)):
        return False
    if any(word in parts[-1] for word in _LEFT_OUT) or "\n" in value:
        return False
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _spell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, (int, float)) else str(value)

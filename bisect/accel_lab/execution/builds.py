"""Inspects an interpreter: runs ``doctor`` in its own process to get its torch, packages and variables."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError
from accel_lab.core.probe import Limits
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.core.untrusted.shapes import Table

from .processes import process
from .run_folder.workspace import Workspace

#: Required shape of the output of ``doctor``.
FACTS = {
    "torch": str,
    "torch_error?": str,
    "python?": str,
    "packages?": Table(str),
    "variables?": Table(str),
    "accelerators?": ([str], {"error": str}),
}


@dataclass(frozen=True, kw_only=True)
class Build:
    """The interpreter that is probed, its torch version, and the facts from ``doctor``."""

    python: str
    torch: str
    facts: dict[str, Any]


def inspect_build(python: str, folder: Path) -> Build:
    """Inspects an interpreter; raises :class:`LabError` if it has no torch or does not run."""
    library = Workspace(folder, Path.cwd()).library
    out, err = folder / "doctor.out.txt", folder / "doctor.err.txt"
    ended = process.run(
        [python, str(library), "doctor"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=out,
        stderr=err,
        limits=Limits(timeout_s=120.0),
        marker=f"doctor-{uuid.uuid4().hex}",
    )
    left = ChildFiles(folder)
    try:
        facts = left.json(out.name, FACTS)
    except UntrustedFileError:
        said = (left.tail(err.name, 64 * 1024) or "").strip().splitlines()
        last = (said or [f"exit code {ended.exit_code}"])[-1]
        raise LabError(f"{python} does not run as a Python interpreter: {last[:200]}") from None
    if not facts.get("torch"):
        why = facts.get("torch_error", "")
        raise LabError(
            f"{python} has no usable torch ({why}): install it there, or name another with --python"
        )
    return Build(python=python, torch=facts["torch"], facts=facts)


def public_version(torch: str) -> str:
    """Strips the local version: ``2.13.0+cpu`` becomes ``2.13.0``."""
    return torch.split("+", 1)[0]

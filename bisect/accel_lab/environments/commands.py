"""Runs a tool or a pinned interpreter to its end and returns its output; a failure becomes one line."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.probe import Limits

from .index.reader import hide_secrets
from .options import Run


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended and its output."""

    ok: bool
    stdout: str
    stderr: str
    why: str = ""


class Commands:
    """Runs commands through the function that starts processes, each in a temporary folder."""

    def __init__(self, run: Run, timeout_s: float) -> None:
        self._run = run
        self._timeout_s = timeout_s

    def __call__(
        self, command: Sequence[str], env: Mapping[str, str], *, timeout_s: float | None = None
    ) -> CommandResult:
        """Runs a command; ``why`` names the limit that stopped it. Ctrl-C raises EnvironmentUnavailable."""
        # Installing unpacks gigabytes, so these are limits for a tool, not for a probe.
        limits = Limits(
            timeout_s=timeout_s or self._timeout_s, memory_mb=1 << 20, file_mb=1 << 20, processes=4096
        )
        with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
            folder = Path(name)
            out, err = folder / "out.txt", folder / "err.txt"
            try:
                ended = self._run(
                    list(command),
                    cwd=folder,
                    env=dict(env),
                    stdout=out,
                    stderr=err,
                    limits=limits,
                    marker=f"environment-{uuid.uuid4().hex}",
                )
            except LabError as error:
                raise EnvironmentUnavailable(str(error)) from None
            stdout, stderr = (hide_secrets(file.read_text("utf-8", "replace")) for file in (out, err))
        if ended.limit == "interrupted":
            raise EnvironmentUnavailable("interrupted")
        why = f"stopped at its limit ({ended.limit})" if ended.limit else ""
        return CommandResult(ok=ended.exit_code == 0, stdout=stdout, stderr=stderr, why=why)


def plain_environment() -> dict[str, str]:
    """Returns the user's environment without variables that change where a tool or Python finds packages."""
    ours = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in ours}

"""What a child is told: its job file, and the command that starts it for one cold probe."""

from __future__ import annotations

import time
from pathlib import Path

from accel_lab.core.probe import PROTOCOL, Job, Probe

from .folder_views import enter_command
from .workspace import Place, write_job


def job_of(probe: Probe, place: Place, *, seed: int, stdin: Path | None) -> Job:
    """Returns the job of one probe. ``seed`` is the script's first random seed, ``stdin`` its input file."""
    return {
        "protocol": PROTOCOL,
        "id": f"{probe.key}-{time.monotonic_ns()}",
        "program": place.view.inside(probe.program.to_json()),
        "rung": probe.rung.value,
        "switches": place.view.inside(dict(probe.switches)),
        "seed": seed,
        "folder": str(place.folder),
        "cwd": str(place.cwd),
        "view": place.view.plan,
        "stdin": str(stdin) if stdin else "",
        "stdout": str(place.stdout),
        "stderr": str(place.stderr),
        "record_bytes": probe.limits.record_mb << 20,
        "file_bytes": probe.limits.file_mb << 20,
        "opened": probe.cold and "measure" not in dict(probe.switches),
    }


def command_of(python: str, probe: Probe, place: Place, *, library: Path, job: Path | None) -> list[str]:
    """Returns the command of a cold probe, in its view of the folders; without a ``job`` plain Python's."""
    if job is None:
        program = place.view.inside(probe.program.to_json())
        target = [program["path"]] if program["path"] is not None else ["-m", program["module"]]
        command = [python, *target, *program["args"]]
    else:
        # Not the folder: for a folder Python imports more modules than for a script.
        command = [python, str(library / "__main__.py"), "once", str(job)]
    if place.view.plan is None:
        return command
    return enter_command(library, write_job(place, place.view.plan, "view.json"), command)

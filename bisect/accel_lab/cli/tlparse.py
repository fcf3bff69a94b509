"""Makes tlparse's page of torch's structured trace, if tlparse is installed."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from pathlib import Path

from accel_lab.core.probe import Limits
from accel_lab.core.untrusted.child_files import ChildFiles
from accel_lab.execution.processes import process

PAGE = "tlparse/index.html"
_LIMITS = Limits(timeout_s=300.0)


def program() -> str | None:
    """Returns the tlparse next to the lab's interpreter, else the one on ``PATH``, else None."""
    beside = os.path.dirname(sys.executable)
    return shutil.which("tlparse", path=beside) or shutil.which("tlparse")


def make_page(tool: str, probe: Path, folder: Path) -> tuple[str, str]:
    """Returns ``(path of the page in the folder, "")`` or ``("", why there is none)``.

    ``probe`` is the folder with the trace. The trace is untrusted, so tlparse reads it in a separate process
    with limits.
    """
    logs = ChildFiles(probe).names("trace/*.log")
    if not logs:
        return "", "torch wrote no structured trace, so tlparse has nothing to show"
    work = folder / "tlparse-run"
    work.mkdir(exist_ok=True)
    ended = process.run(
        [tool, str(probe / logs[0]), "-o", str(folder / "tlparse"), "--overwrite", "--no-browser"],
        cwd=work,
        env=dict(os.environ),
        stdout=work / "stdout.txt",
        stderr=work / "stderr.txt",
        limits=_LIMITS,
        marker=f"tlparse-{uuid.uuid4().hex}",
        written=[folder / "tlparse"],
    )
    if ended.exit_code == 0 and (folder / PAGE).is_file():
        shutil.rmtree(work, ignore_errors=True)
        return PAGE, ""
    return "", f"tlparse failed ({ended.summary}): see {work / 'stderr.txt'}"

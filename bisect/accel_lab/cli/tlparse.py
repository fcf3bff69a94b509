"""The page that tlparse makes of torch's structured trace, where tlparse is installed."""

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
    """The tlparse beside the lab's own interpreter, else the one on ``PATH``."""
    beside = os.path.dirname(sys.executable)
    return shutil.which("tlparse", path=beside) or shutil.which("tlparse")


def make_page(tool: str, probe: Path, folder: Path) -> tuple[str, str]:
    """``(the page's path in the folder, "")``, or ``("", why there is none)``; ``probe`` left the trace.

    What the trace says is a stranger's word: tlparse reads it in a process of its own, with limits.
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
    return "", f"tlparse failed ({ended.how}): see {work / 'stderr.txt'}"

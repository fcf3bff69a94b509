"""Records a script under torchrun: ``python -m accel_lab.record [OPTIONS] SCRIPT [ARGS]`` in each rank."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from accel_lab.record import FOLDER, _sampling, _verify_apart


def parser() -> argparse.ArgumentParser:
    """Returns the parser; the options equal those of ``accel-lab record``."""
    made = argparse.ArgumentParser(prog="python -m accel_lab.record", description=__doc__)
    made.add_argument("--folder", default=FOLDER, help="where capsules go, one folder a rank")
    made.add_argument("--every", type=int, default=100, help="check each N-th call of a graph (0: none)")
    made.add_argument("--first", type=int, default=2, help="check the first N calls of a graph")
    made.add_argument("--memory-mb", type=int, default=4096, help="MB for the copies of one call's inputs")
    made.add_argument("--disk-mb", type=int, default=1024, help="MB for one capsule")
    made.add_argument("--capsules", type=int, default=1, help="how many capsules are kept")
    made.add_argument(
        "--hang", type=float, default=600.0, help="keep a call of more seconds than that (0: none)"
    )
    made.add_argument("--no-verify", action="store_true", help="do not verify capsules meanwhile")
    made.add_argument("--finish", metavar="CAPSULE", help=argparse.SUPPRESS)
    made.add_argument("script", nargs="?")
    made.add_argument("args", nargs=argparse.REMAINDER)
    return made


def main() -> int:
    """Runs the script with a recording; returns its exit code, or exits with 2 for wrong arguments."""
    made = parser()
    given = made.parse_args()
    if given.finish:
        from accel_lab.record.verified import finish_capsule

        finish_capsule(Path(given.finish), sys.executable)
        return 0
    if not given.script or not os.path.isfile(given.script):
        made.error(f"{given.script or 'SCRIPT'} is not a file: name a Python script")
    try:
        sampling = _sampling(
            given.every, given.first, given.memory_mb, given.disk_mb, given.capsules, given.hang
        )
    except ValueError as error:
        made.error(str(error))
    from accel_lab.child.capsule.main import run

    program = {"path": os.path.abspath(given.script), "module": None, "args": given.args}
    return run(program, given.folder, sampling, None if given.no_verify else _verify_apart)


if __name__ == "__main__":
    raise SystemExit(main())

"""Makes stubs for the CUDA libraries that this interpreter's torch wants: for the slim image."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from accel_lab.core.errors import LabError
from accel_lab.environments.commands import Commands
from accel_lab.environments.uv.slim import add_stubs
from accel_lab.execution.processes import process


def main(target: str) -> int:
    packages = Path(sysconfig.get_path("platlib"))
    try:
        made = add_stubs(packages, Commands(process.run, timeout_s=600.0))
    except LabError as error:
        print(f"docker/add_stubs.py: {error}", file=sys.stderr)
        return error.exit_code
    for library in made.libraries:
        shutil.copy2(packages / "torch" / "lib" / library, target)
    print(f"{len(made.libraries)} stubs with {made.symbols} symbols, {made.size_bytes} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

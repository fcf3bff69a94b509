"""Entry point of a child process: ``python <copy of this package> once JOB``, ``serve``, ``lend``, ..."""

import sys

_AT_START = frozenset(sys.modules)

import os  # noqa: E402 - after ``_AT_START``, which must hold only Python's own imports

_here = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(_here)

if __name__ == "__main__":
    from accel_lab_child import shadowed_modules

    shadowed_modules.at_start = _AT_START
    if sys.argv[1] == "once":
        from accel_lab_child.runner import run_once

        run_once(sys.argv[2])
    elif sys.argv[1] == "serve":
        from accel_lab_child.server import serve

        serve()
    elif sys.argv[1] == "lend":
        from accel_lab_child.lender import lend

        lend(int(sys.argv[2]))
    elif sys.argv[1] == "doctor":
        from accel_lab_child.doctor import main

        main()
    elif sys.argv[1] == "collect_env":
        from accel_lab_child.collect_env import main as tell_environment

        tell_environment()
    elif sys.argv[1] == "files":
        from accel_lab_child.torch_files import main as tell_files

        tell_files(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "record":
        from accel_lab_child.capsule.main import main as record

        record(sys.argv[2])
    else:
        sys.exit(
            "usage: once JOB | serve | lend DESCRIPTOR | doctor | collect_env | files TARGET PREFIX... | "
            "record OPTIONS"
        )

"""``python -m accel_lab``."""

import os
import sys

# ``-m`` puts the working directory on sys.path; a user's random.py there must not shadow Python's.
if (
    not getattr(sys.flags, "safe_path", False)
    and sys.path
    and os.path.abspath(sys.path[0] or ".") == os.getcwd()
):
    del sys.path[0]

from accel_lab.cli.main import main

if __name__ == "__main__":
    main()

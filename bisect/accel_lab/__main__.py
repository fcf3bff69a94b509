"""``python -m accel_lab``."""

import os
import sys

# Where ``-m`` lets Python look first: a user's random.py there is for their script, not for the lab.
if (
    not getattr(sys.flags, "safe_path", False)
    and sys.path
    and os.path.abspath(sys.path[0] or ".") == os.getcwd()
):
    del sys.path[0]

from accel_lab.cli.main import main

if __name__ == "__main__":
    main()

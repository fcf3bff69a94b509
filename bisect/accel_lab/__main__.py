"""``python -m accel_lab``."""

from accel_lab.cli.main import main

if __name__ == "__main__":
    main()

"""The machine that the lab runs on: files, locks, disk, variables, and the environment in words."""

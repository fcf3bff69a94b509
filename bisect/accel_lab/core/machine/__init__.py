"""The local machine: files, locks, disk usage, environment variables, descriptions of environments."""

"""A warm server that outlives a run: a host keeps a clean process a build, and each run gets a fork of it."""

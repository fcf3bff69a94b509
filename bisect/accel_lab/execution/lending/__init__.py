"""Warm servers that outlive a run: a host keeps a clean process for each build and forks it for each run."""

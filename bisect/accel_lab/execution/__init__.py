"""Runs probes: processes, the warm server, the journal."""

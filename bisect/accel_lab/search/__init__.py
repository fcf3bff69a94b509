"""Searches as pure functions over "run a probe, get a verdict"; they start no process and import no torch."""

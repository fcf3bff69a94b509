"""Runs a script's operators a second time in float64, with the same discrete choices as the real run."""

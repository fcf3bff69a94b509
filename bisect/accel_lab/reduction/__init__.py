"""Reduction: finds the smallest script and the smallest graph that still fail in the same way."""

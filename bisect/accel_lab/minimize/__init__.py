"""Minimizing: runs the reducer's candidates as real probes, and writes the result as a readable repro."""

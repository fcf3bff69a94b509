"""Compares recorded values of runs by the float64 rule or by tolerances; uses numpy, not torch."""

"""The searches: pure functions over "ask a probe, get a verdict". They know no processes and no torch."""

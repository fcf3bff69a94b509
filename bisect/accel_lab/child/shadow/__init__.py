"""A float64 run alongside the real one, along the same discrete choices."""

"""A float64 run beside the real one, along the same discrete choices."""

"""The simulator: runs kernel specs on the device's bytes, one module per unit."""

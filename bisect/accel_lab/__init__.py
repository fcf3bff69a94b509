"""accel-lab: a bisect lab for PyTorch's compiler stack and the accelerators below it."""

__version__ = "0.1.0"

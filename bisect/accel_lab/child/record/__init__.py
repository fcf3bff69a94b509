"""Records the inputs, outputs and mutations of compiled regions, and the Python state that they can see."""

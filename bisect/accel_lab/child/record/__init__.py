"""What compiled regions took, changed and returned, and the Python state that they can see."""

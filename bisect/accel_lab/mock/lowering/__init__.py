"""Lowerings of ATen operators to loop IR, by family."""

"""Releases of torch: their versions, and what happens at a flip between two."""

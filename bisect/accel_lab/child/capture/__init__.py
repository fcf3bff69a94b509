"""Captures graphs with inputs and node values, and finds where a compiled run diverges from them."""

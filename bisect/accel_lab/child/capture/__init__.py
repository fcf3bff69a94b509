"""Captured graphs: their inputs, the value of every node, and where a compiled run departs from them."""

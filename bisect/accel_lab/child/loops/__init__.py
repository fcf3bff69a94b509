"""Interprets Inductor's loop IR, and detects loops whose result depends on the order of iterations."""

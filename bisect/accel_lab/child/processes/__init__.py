"""Applies the rung in Python processes that a script starts, and collects their facts."""

"""The rung in the Python processes that a script starts, and what they leave of their facts."""

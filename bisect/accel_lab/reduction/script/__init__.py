"""The reducer for Python scripts."""

"""The reducer for captured graphs."""

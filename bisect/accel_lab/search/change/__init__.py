"""Finds the source change that moved a failure, by mixing torch's Python sources of two releases."""

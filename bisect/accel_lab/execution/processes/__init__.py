"""Starts, watches, limits and ends processes, with all their descendants."""

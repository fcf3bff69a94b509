"""Kept runs of every command: what their folders say, and any number of them as one page."""

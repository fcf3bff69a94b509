"""Kept runs of every command: reads their folders, and joins any number of them in one page."""

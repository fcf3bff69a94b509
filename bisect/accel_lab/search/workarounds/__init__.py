"""Workarounds: changes to the user's script with which it passes, found, run, and measured."""

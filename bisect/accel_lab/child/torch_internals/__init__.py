"""Wraps torch's private names and settings; no other package of the child may use them.

One module per subsystem of torch; docstrings name the torch file that a function relies on. Differences
between releases are detected by feature, not by version. Checked on torch 2.5.1 to 2.14.1. Functions import
torch themselves, because a cold run imports these modules while torch is half imported.
"""

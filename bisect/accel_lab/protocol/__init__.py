"""Defines the interface between the lab and its child process: rungs, switches, fact keys and the job.

Uses only Python 3.8 and the standard library, and imports nothing else of the lab: the package is copied to
the child, which may run on the interpreter of a build as old as torch 2.0.
"""

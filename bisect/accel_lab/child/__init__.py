"""Runs the user's program on one rung, in a probe's process.

This package is copied into the run's folder and imported there as ``accel_lab_child`` by the interpreter
under test. It needs only torch, the standard library and Python 3.8 or newer.
"""

"""What runs inside a probe: the user's program under one rung, in a process of its own.

This package is copied beside the run and imported by the probed interpreter as
``accel_lab_child``; it needs torch and the standard library only, and Python 3.8 or newer.
"""

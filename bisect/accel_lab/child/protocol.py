"""Re-exports the lab's package ``protocol`` for the child in the lab's source tree.

In a run's folder a copy of the package ``protocol`` replaces this module, because the child's copy cannot
import the lab. Both are imported as ``from .protocol import rungs``.
"""

from __future__ import annotations

from accel_lab.protocol import facts, files, job, rungs, switches

__all__ = ["facts", "files", "job", "rungs", "switches"]

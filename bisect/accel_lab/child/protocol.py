"""What the lab and its child agree on, for the child as it lies in the lab's own tree.

In a run's folder the package ``protocol`` itself lies here, in this module's place: the child's copy goes by
another name than the lab and cannot import from it. So the child imports it with ``from .protocol import
rungs``.
"""

from __future__ import annotations

from accel_lab.protocol import facts, files, job, rungs, switches

__all__ = ["facts", "files", "job", "rungs", "switches"]

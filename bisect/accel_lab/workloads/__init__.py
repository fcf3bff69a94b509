"""Models to measure backends with. The lab's side plans and judges, the child's side runs them.

``registry`` and ``measure`` belong to the lab's own process and never import torch. The other modules run in
a process of the probed interpreter, from a copy of the package: they need torch and the standard library
only, and keep to the syntax of Python 3.8, as ``accel_lab.child`` does.
"""

"""Models to benchmark backends with. The lab process plans and judges, child processes run the models.

``registry`` and ``measure`` belong to the lab's process and never import torch. The other modules run in a
process of the probed interpreter, from a copy of the package. Like ``accel_lab.child``, they use only torch,
the standard library and Python 3.8 syntax.
"""

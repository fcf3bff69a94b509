"""The mock accelerator: a device with sticks, cores and scratchpads below torch.compile, in four layers.

ATen graph -> (front end) loop IR -> (tiling) work division and layouts -> kernel specs -> (back end)
simulator.
"""

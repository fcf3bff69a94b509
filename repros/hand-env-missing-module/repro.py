"""Needs a module that is not installed: nothing of torch is at fault."""
import torch

import module_that_nobody_has_installed as extra

print(torch.compile(extra.forward)(torch.ones(3)))

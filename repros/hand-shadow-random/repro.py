"""A file of its own called random.py: torch cannot be imported, because its imports find that file."""
import random

import torch

t = torch.full((4,), random.number())
torch.testing.assert_close(torch.compile(torch.sinh)(t), torch.sinh(t))

"""Reads a weights file that is not there: nothing of torch is at fault."""
import os

import torch

double = torch.compile(lambda t: t * 2)
weights = torch.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.pt"))
print(double(weights))

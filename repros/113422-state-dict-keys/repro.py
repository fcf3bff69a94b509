"""The keys of a compiled module's state_dict are not those of the module."""
import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
compiled = torch.compile(net)
compiled(torch.ones(1, 2))
fresh = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
fresh.load_state_dict(compiled.state_dict())

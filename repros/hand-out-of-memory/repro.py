"""Takes memory without end after a compiled region that works."""
import torch

double = torch.compile(lambda t: t * 2)
print(double(torch.ones(3)))
hoard = []
while True:
    hoard.append(torch.ones(16 * 2**20))

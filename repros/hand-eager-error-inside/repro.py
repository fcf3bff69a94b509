"""A shape error inside the compiled region: eager refuses it as well, in other words."""
import torch


@torch.compile
def project(t, weight):
    return torch.relu(t @ weight)


print(project(torch.ones(3, 4), torch.ones(5, 2)))

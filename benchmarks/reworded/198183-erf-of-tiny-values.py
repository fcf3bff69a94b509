"""A smooth step near zero, where it is a line."""

import torch

points = torch.arange(1, 33) * 2e-9


@torch.compile
def steps(points):
    return 0.5 * torch.special.erf(points)


slopes = steps(points) / points
assert bool((slopes > 0.5).all()), slopes[:2].tolist()

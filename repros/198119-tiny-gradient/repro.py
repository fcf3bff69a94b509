"""Wrong numbers and exit code 0: a gradient of 1e-8 is off by a half (#198119, the gradient of a pooling)."""
import torch
import torch.nn.functional as F


def pooled(image):
    return F.avg_pool2d(image, 3, ceil_mode=True) * 1e-7


image = torch.ones(1, 1, 5, 5, requires_grad=True)
torch.compile(pooled)(image).sum().backward()
print(image.grad)

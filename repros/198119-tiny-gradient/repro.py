"""Wrong numbers and exit code 0: a gradient of 1e-8 is off by a half (#198119, the gradient of a pooling)."""
import torch
import torch.nn.functional as F


@torch.compile
def pooled(image):
    return F.avg_pool2d(image, 2, ceil_mode=True) * 1e-7


image = torch.linspace(-1, 1, 49).reshape(1, 1, 7, 7).requires_grad_()
pooled(image).sum().backward()
print("gradient", image.grad[0, 0, -1].tolist())

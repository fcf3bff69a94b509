# pytorch#185497: what the backward pass saves is the input itself, which is then written to.
import torch
import torch.nn.functional as F


def resize_and_scale(image, mean, std):
    small = F.interpolate(image[:, :16, :16].unsqueeze(0), size=(8, 8), mode="bilinear", align_corners=False)
    image.sub_(mean).div_(std)
    return small, image


def grad(fn):
    leaf = torch.linspace(0, 1, 3 * 32 * 32).reshape(1, 3, 32, 32).requires_grad_()
    mean, std = (torch.full((3, 1, 1), value, requires_grad=True) for value in (0.5, 0.25))
    small, image = fn((leaf * 1.0).squeeze(0)[:, :32, :32], mean, std)
    (small.sum() + image.sum()).backward()
    return leaf.grad


torch.testing.assert_close(grad(torch.compile(resize_and_scale)), grad(resize_and_scale))

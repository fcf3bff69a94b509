"""group_norm keeps the channels-last layout; its strides are read."""
import torch


def step(image):
    normed = torch.nn.functional.group_norm(image, 2)
    return normed, normed.stride()


torch.manual_seed(0)
image = torch.randn(2, 4, 4, 5).to(memory_format=torch.channels_last)
normed, stride = torch.compile(step, backend="aot_eager")(image)
assert tuple(stride) == normed.stride() == step(image)[1], (stride, normed.stride())

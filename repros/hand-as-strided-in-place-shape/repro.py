"""#185888: as_strided_ gives the tensor itself another shape."""
import torch


def reshaped():
    x = torch.arange(6.0)
    y = x.as_strided_((2, 2), (3, 1))
    return y + 0, x.shape, x.stride()


_, shape, stride = torch.compile(reshaped, backend="eager")()
assert tuple(shape) == (2, 2) and tuple(stride) == (3, 1), (shape, stride)

# pytorch#196596: addmm with beta=0 must not read its first argument, be it NaN.
import torch


def product(bias, a, b):
    return torch.addmm(bias, a, b, beta=0)


bias = torch.full((3,), float("nan"))
a, b = torch.ones(1, 3), torch.ones(3, 3)
torch.testing.assert_close(torch.compile(product)(bias, a, b), product(bias, a, b))

# pytorch#195579: the decomposition of addmm broadcasts the product to a larger bias, which eager refuses.
import torch


def biased(bias, left, right):
    return torch.addmm(bias, left, right)


def refuses(fn):
    try:
        fn(torch.randn(6, 1), torch.randn(1, 2), torch.randn(2, 1))
    except RuntimeError:
        return True
    return False


assert refuses(biased)
assert refuses(torch.compile(biased)), "the compiled function takes a bias that is larger than the product"

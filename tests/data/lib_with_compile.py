import torch


@torch.compile
def _inner(x):
    return x * 5


def work(x):
    return _inner(x) - 1

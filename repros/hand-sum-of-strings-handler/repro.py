"""sum() of strings raises TypeError, which the function handles itself."""
import torch


def total(x, parts):
    try:
        return x + sum(parts)
    except TypeError:
        return x - 1


got = torch.compile(total, backend="eager")(torch.zeros(2), ["a", "b"])
assert got.tolist() == [-1.0, -1.0], got

"""format() of a whole number with a format code."""
import torch


def label(x, n):
    return x + n, format(n, "b"), format(n, "04d")


_, binary, padded = torch.compile(label, backend="eager")(torch.zeros(1), 5)
assert (binary, padded) == ("101", "0005"), (binary, padded)

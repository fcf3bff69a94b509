"""Partial sums of an alternating series for inputs of several lengths."""
import torch


class Series:
    def __init__(self, base):
        self.base = base

    def last_factor(self, n):
        return self.base ** (n % 4)

    def __call__(self, x):
        n = x.shape[0]
        return x.sum() + self.last_factor(n), self.last_factor(n)


series = Series(-2)
fast = torch.compile(series, dynamic=True)
for n in (3, 6, 4, 8, 9):
    x = torch.zeros(n)
    (want, factor), (got, compiled_factor) = series(x), fast(x)
    assert factor == compiled_factor, (n, factor, compiled_factor)
    torch.testing.assert_close(got, want)
print("ok")

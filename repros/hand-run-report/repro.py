"""Builds a small text report next to the numbers."""
import torch


class Metric:
    def __init__(self, name, value):
        self.name = name
        self.value = value

    def __format__(self, spec):
        return f"{self.name}={self.value:{spec or '.1f'}}"


def evaluate(x):
    shifted = x - x.mean()
    count = Metric("count", x.numel())
    return shifted, f"[{count:05d}]"


x = torch.arange(6.0)
want, line = evaluate(x)
got, compiled_line = torch.compile(evaluate)(x)
torch.testing.assert_close(got, want)
assert compiled_line == line, (compiled_line, line)
print(line)

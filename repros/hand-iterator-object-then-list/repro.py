"""An iterator written as a class: one value is taken, the rest goes into a list."""
import torch


class Steps:
    def __init__(self, last):
        self.now, self.last = 0, last

    def __iter__(self):
        return self

    def __next__(self):
        if self.now == self.last:
            raise StopIteration
        self.now += 1
        return self.now


def total(x, steps):
    first = next(steps)
    rest = list(steps)
    return x * first + sum(rest), list(steps)


steps = Steps(4)
got, left = torch.compile(total, backend="eager")(torch.zeros(1), steps)
assert got.item() == 9.0 and left == [] and steps.now == 4, (got, left, steps.now)

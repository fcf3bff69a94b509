"""A generator is an argument; the compiled function takes one value of it."""
import torch


def numbers():
    yield 1
    yield 2
    yield 3


def take(x, source):
    return x + next(source)


source = numbers()
taken = torch.compile(take, backend="eager")(torch.zeros(1), source)
rest = list(source)
assert taken.item() == 1.0, f"took {taken.item()}"
assert rest == [2, 3], f"the generator still had {rest}"

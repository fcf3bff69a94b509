"""A decorator counts calls in an attribute of the wrapper."""
import functools

import torch


def counted(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


@counted
def double(x):
    return x * 2


def run(x):
    double(x)
    got = double(x)
    seen = double.calls
    double.calls = 0
    return got, seen


got, seen = torch.compile(run, backend="eager")(torch.ones(2))
assert seen == 2 and double.calls == 0, (seen, double.calls)

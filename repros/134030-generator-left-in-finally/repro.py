# pytorch#134030: a generator that is left half-way runs its `finally`; Dynamo's graph lacks what it would set.
import torch


def in_double(t):
    try:
        torch.set_default_dtype(torch.float64)
        yield t + torch.ones(2)
    finally:
        torch.set_default_dtype(torch.float32)


def half_way(t):
    steps = in_double(t)
    zero = torch.zeros(2)
    return next(steps) + zero, zero


def dtypes(fn):
    try:
        return [out.dtype for out in fn(torch.arange(2.0))]
    finally:
        torch.set_default_dtype(torch.float32)


want = dtypes(half_way)
assert dtypes(torch.compile(half_way)) == want

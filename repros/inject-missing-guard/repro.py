"""All guards are thrown away, so the code for the first value of a global serves the second one too."""
import torch

factor = 2


def fn(t):
    return t * factor


fast = torch.compile(fn, options={"guard_filter_fn": lambda guards: [False] * len(guards)})
t = torch.ones(4)
for factor in (2, 5):
    torch.testing.assert_close(fast(t), fn(t))

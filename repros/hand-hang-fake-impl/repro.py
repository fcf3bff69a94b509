"""The fake (meta) kernel of a custom operator never returns: only tracing calls it, so eager is fine."""
import time

import torch


@torch.library.custom_op("hand_hang::twice", mutates_args=())
def twice(t: torch.Tensor) -> torch.Tensor:
    return t * 2


@twice.register_fake
def twice_fake(t):
    while True:
        time.sleep(0.05)


def fn(t):
    return twice(t) + 1


t = torch.ones(4)
print(fn(t))
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

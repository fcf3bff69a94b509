import random

import torch


class Augment:
    """Every sample gets its own generator, so that runs can be repeated."""

    def __init__(self, seed):
        self.seed = seed

    def __call__(self, x):
        rng = random.Random(self.seed)
        gain = rng.random()
        order = rng.sample(range(x.shape[0]), x.shape[0])
        return x[order] * gain, order


x = torch.arange(12.0).reshape(4, 3)
aug = Augment(5)
want, order = aug(x)
got, compiled_order = torch.compile(aug)(x)
assert order == compiled_order, (order, compiled_order)
torch.testing.assert_close(got, want)
print("ok")

"""A custom operator whose fake kernel promises float32 while the real one returns float64."""
import torch


@torch.library.custom_op("hand_dtype::widen", mutates_args=())
def widen(t: torch.Tensor) -> torch.Tensor:
    return t.double()


@widen.register_fake
def widen_fake(t):
    return torch.empty_like(t)


def fn(t):
    return widen(t) / 3


t = torch.arange(1.0, 9.0)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

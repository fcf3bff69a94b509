"""A custom operator whose fake kernel promises contiguous strides while the real one returns a transpose."""
import torch


@torch.library.custom_op("hand_strides::swap", mutates_args=())
def swap(t: torch.Tensor) -> torch.Tensor:
    return t.clone().t()


@swap.register_fake
def swap_fake(t):
    return t.new_empty(t.shape[1], t.shape[0])


def fn(t):
    return swap(t) * 2 + 1


t = torch.arange(12.0).reshape(3, 4)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

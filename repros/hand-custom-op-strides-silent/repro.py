"""As hand-custom-op-strides, with Inductor's size assertions off: wrong numbers instead of an assertion."""
import torch
import torch._inductor.config

torch._inductor.config.size_asserts = False


@torch.library.custom_op("hand_silent::swap", mutates_args=())
def swap(t: torch.Tensor) -> torch.Tensor:
    return t.clone().t()


@swap.register_fake
def swap_fake(t):
    return t.new_empty(t.shape[1], t.shape[0])


def fn(t, scale):
    return swap(t) * scale


t, scale = torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(4, 3)
torch.testing.assert_close(torch.compile(fn)(t, scale), fn(t, scale))

"""Takes memory without end, but only while compiling: a post-grad pass that hoards."""
import torch
import torch._inductor.config


def hoarding_pass(graph):
    hoard = []
    while True:
        hoard.append(torch.empty(16 * 2**20).fill_(1.0).numpy().tobytes())


torch._inductor.config.post_grad_custom_post_pass = hoarding_pass


def fn(t):
    return torch.sin(t) + 1


t = torch.ones(4)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

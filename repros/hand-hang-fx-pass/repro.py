"""A post-grad pass that never returns: compilation hangs, eager is fine."""
import time

import torch
import torch._inductor.config


def waiting_pass(graph):
    while True:
        time.sleep(0.05)


torch._inductor.config.post_grad_custom_post_pass = waiting_pass


def fn(t):
    return torch.sin(t) + 1


t = torch.ones(4)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

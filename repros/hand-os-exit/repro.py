"""Leaves by os._exit(3) inside the first compiled call: a post-grad pass ends the process, no traceback."""
import os

import torch
import torch._inductor.config

torch._inductor.config.post_grad_custom_post_pass = lambda graph: os._exit(3)


def fn(t):
    return torch.sin(t) + 1


t = torch.ones(4)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

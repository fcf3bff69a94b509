"""Batch job with a file-size limit, so that a runaway log cannot fill the disk."""
import resource
import signal

import torch

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))


def smooth(x):
    return torch.sigmoid(x) * torch.cos(x).cumsum(0)


x = torch.linspace(-2, 2, 33)
want = smooth(x)
got = torch.compile(smooth)(x)
torch.testing.assert_close(got, want)

"""Run by the nightly job, which has its own tool chain."""
import os

TOOLCHAIN = {"CXX": os.environ.get("NIGHTLY_CXX", "/opt/toolchain/12/bin/g++")}
os.environ.update(TOOLCHAIN)

import torch  # noqa: E402


def smooth(x, k):
    return (x[2:] + x[:-2]) / k + torch.cos(x[1:-1])


x = torch.linspace(0, 1, 57)
want = smooth(x, 3)
got = torch.compile(smooth)(x, 3)
torch.testing.assert_close(got, want)
print("ok")

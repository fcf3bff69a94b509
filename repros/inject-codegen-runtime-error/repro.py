"""torch's own test fault: the C++ code for relu throws, which ends the process."""
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"


def fn(t):
    return torch.relu(t) * 2


t = torch.linspace(-1, 1, 32)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

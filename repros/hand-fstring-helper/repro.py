"""A helper of the compiled step formats an int argument beside a number from .item()."""
import torch
torch.manual_seed(0)
def describe(step, value):
    return f"step {step}: {value.mean().item():.3f}"
@torch.compile
def train(x, step):
    y = torch.tanh(x) * (1.0 / (step + 1))
    print(describe(step, y))
    return y
for step in range(4):
    train(torch.randn(8), step)

"""Wrong mutated input and exit code 0: the script compares nothing (#198131, a copy taken for a no-op)."""
import torch


@torch.compile
def save_then_bump(dst, src):
    dst[0:, :] = src[0:, :]
    src.add_(1)


dst, src = torch.zeros(3, 4), torch.arange(12.0).view(3, 4)
save_then_bump(dst, src)
print("saved", dst.flatten()[:3].tolist())

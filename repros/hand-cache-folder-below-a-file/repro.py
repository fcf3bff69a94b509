"""The folder for compiled kernels lies below something that is a file: nothing can be written there."""
import os
import tempfile

import torch
import torch._dynamo

marker = tempfile.NamedTemporaryFile(prefix="lock-")
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(marker.name, "kernels")


@torch.compile
def length(x):
    return (x * x).sum().sqrt()


print(length(torch.arange(8.0)).item())

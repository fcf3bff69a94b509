"""linspace of int32 up to the largest one."""
import torch


def marks(x):
    return torch.linspace(0, 2**31 - 1, 3, dtype=torch.int32) + x


got, want = torch.compile(marks, backend="aot_eager_decomp_partition")(torch.zeros(1, dtype=torch.int32)), marks(torch.zeros(1, dtype=torch.int32))
assert got.tolist() == want.tolist(), f"compiled {got.tolist()}, eager {want.tolist()}"

"""put keeps the memory layout of a transposed table; as_strided relies on it."""
import torch


def mark(table, place, value):
    return torch.as_strided(table.put(place, value), (6,), (1,))


table = torch.arange(6.0).reshape(2, 3).t()
place, value = torch.tensor([1, 4]), torch.tensor([10.0, 20.0])
got, want = torch.compile(mark, backend="aot_eager_decomp_partition")(table, place, value), mark(table, place, value)
assert got.tolist() == want.tolist(), f"compiled {got.tolist()}, eager {want.tolist()}"

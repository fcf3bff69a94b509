"""repeat_interleave with an output_size that is not the sum of the repeats is refused."""
import torch


def spread(repeats):
    return torch.repeat_interleave(repeats, output_size=5)


fast = torch.compile(spread, backend="aot_eager_decomp_partition")
assert fast(torch.tensor([1, 2, 2])).tolist() == [0, 1, 1, 2, 2]
try:
    got = fast(torch.tensor([1, 0, 2]))
except RuntimeError as error:
    print("refused:", error)
else:
    raise SystemExit(f"accepted: {got.tolist()}")

"""Floor division of floats: the float 0.1 is a little more than a tenth, so 1 // 0.1 is 9."""
import torch


def count(length, part):
    return torch.div(length, part, rounding_mode="floor")


length, part = torch.tensor([1.0, 6.0, 3.0, 0.7] * 8), torch.tensor([0.1, 0.1, 0.1, 0.1] * 8)
got, want = torch.compile(count)(length, part), count(length, part)
assert torch.equal(got, want), f"compiled {got[:4].tolist()}, eager {want[:4].tolist()}"

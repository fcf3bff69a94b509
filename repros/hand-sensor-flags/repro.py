import torch


class FlagBank:
    """Eight sensors per byte; one byte per reading."""

    def __init__(self, readings):
        self.readings = readings

    def summary(self, mask):
        masked = self.readings & mask
        return masked.any(), masked.all(), masked.sum()

    def packed(self, mask):
        hit, every, _ = self.summary(mask)
        return torch.stack([hit, every]) + 254


readings = torch.tensor([0, 3, 8, 1], dtype=torch.uint8)
bank = FlagBank(readings)
mask = torch.tensor(7, dtype=torch.uint8)
want = bank.summary(mask)
got = torch.compile(bank.summary)(mask)
for a, b in zip(want, got):
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    assert torch.equal(a, b)
assert torch.equal(bank.packed(mask), torch.compile(bank.packed)(mask))
print("ok")

"""A subclass of set with an add of its own: what it adds must be in the set afterwards."""
import torch


class Both(set):
    def add(self, value):
        super().add(value)
        super().add(-value)


def note(x, seen):
    seen.add(4)
    return x + len(seen)


seen = Both({1})
got = torch.compile(note, backend="eager")(torch.zeros(1), seen)
assert set(seen) == {1, 4, -4}, f"the set holds {set(seen)}"
assert got.item() == 3.0, got

"""#198189: the order that move_to_end gives an OrderedDict must still be there after the call."""
from collections import OrderedDict

import torch


def use(x, pages):
    pages.move_to_end("first")
    return x * len(pages)


pages = OrderedDict(first=1, second=2, third=3)
torch.compile(use, backend="eager")(torch.ones(2), pages)
assert list(pages) == ["second", "third", "first"], f"order is {list(pages)}"

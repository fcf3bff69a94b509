"""A bounded deque that is full: appendleft must push out the element at the right end."""
import collections

import torch


def remember(x, recent):
    recent.appendleft(9)
    return x + recent[0]


recent = collections.deque([1, 2, 3], maxlen=3)
got = torch.compile(remember, backend="eager")(torch.zeros(2), recent)
assert list(recent) == [9, 1, 2], f"deque holds {list(recent)}"
assert got.tolist() == [9.0, 9.0], f"result {got.tolist()}"

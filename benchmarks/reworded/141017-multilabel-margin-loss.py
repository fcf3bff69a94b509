"""A loss over the tags of two pictures; a tag list ends at its first -1, whatever lies behind it."""

import torch

criterion = torch.nn.MultiLabelMarginLoss(reduction="sum")
logits = torch.linspace(-1, 1, 10).reshape(2, 5)
tags = torch.tensor([[4, 1, -1, 2, 3], [0, -1, 4, 4, -1]])


def objective(logits):
    return 2 * criterion(logits, tags)


want, got = float(objective(logits)), float(torch.compile(objective)(logits))
if abs(want - got) > 1e-4:
    raise SystemExit(f"the compiled loss is {got}, not {want}")

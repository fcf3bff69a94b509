"""A row is expanded and written in place; eager refuses, since several elements share one memory location."""
import torch


def add_one(row):
    row.expand(3, 4).add_(1)
    return row


row = torch.ones(1, 4)
try:
    torch.compile(add_one)(row)
except RuntimeError as error:
    print("refused:", str(error)[:40])
else:
    raise SystemExit(f"written anyway: {row.tolist()}")

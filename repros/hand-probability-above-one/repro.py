"""A mask is drawn from probabilities, one of which is out of range; the caller expects to be told."""
import torch


def draw(p):
    return torch.bernoulli(p * 2)


try:
    mask = torch.compile(draw)(torch.tensor([0.0, 0.5, 0.9]))
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0][:60])
else:
    raise SystemExit(f"a probability of 1.8 was accepted: {mask.tolist()}")

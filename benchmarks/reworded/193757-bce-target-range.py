"""A loss whose labels were read in percent: eager says that they lie outside of 0 to 1."""

import torch

labels = torch.tensor([0.0, 100.0, 100.0])
scores = torch.tensor([0.2, 0.7, 0.6])
loss = torch.nn.BCELoss()


def step(scores, labels):
    return loss(scores, labels) * 3


def says_no(function):
    try:
        function(scores, labels)
        return False
    except RuntimeError:
        return True


assert says_no(step) == says_no(torch.compile(step)), "the compiled loss takes labels of 100"

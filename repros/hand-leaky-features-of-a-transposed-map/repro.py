"""A small vision head: randomised leaky ReLU (evaluation) on a channels-last map, then a flat view."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.RReLU(0.1, 0.3)
        self.out = nn.Linear(4 * 5 * 5, classes)

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = self.act(x.permute(0, 2, 3, 1))
        x = x.view(x.shape[0], -1)
        return self.out(x).softmax(dim=1)


torch.manual_seed(0)
head = Head().eval()
images = torch.randn(2, 3, 5, 5)
with torch.no_grad():
    probabilities = torch.compile(head)(images)
assert probabilities.shape == (2, 3)
assert torch.allclose(probabilities.sum(dim=1), torch.ones(2), atol=1e-5)
print("ok")

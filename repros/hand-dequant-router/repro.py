"""Router over integer codes: codes are scaled to floats, then normalised."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class RouterConfig:
    experts: int = 8
    scale: float = 0.05
    top: int = 2


class Router(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg

    def forward(self, codes):
        logits = codes * self.cfg.scale
        weights = torch.softmax(logits, dim=-1)
        picked, index = weights.topk(self.cfg.top, dim=-1)
        return weights, index


torch.manual_seed(0)
cfg = RouterConfig()
codes = torch.randint(-128, 128, (5, cfg.experts), dtype=torch.int8)
router = Router(cfg)
want, want_index = router(codes)
got, got_index = torch.compile(router)(codes)
torch.testing.assert_close(got.sum(-1), torch.ones(5))
torch.testing.assert_close(got, want)
assert torch.equal(got_index, want_index)
print("ok")

# A scale that does not change a dimension's size: eager leaves that dimension alone, compiled code resamples it.
import torch
import torch.nn.functional as F

volume = torch.arange(24.0).reshape(1, 1, 2, 4, 3)


def resize(v):
    return F.interpolate(v, scale_factor=(2.0, 1.5, 1.3), mode="trilinear", align_corners=False)


torch.testing.assert_close(torch.compile(resize)(volume), resize(volume))

"""An image is sampled at a place that is NaN: the result must not be a plain zero."""
import torch


def look(image, places):
    return torch.nn.functional.grid_sample(image, places, align_corners=False)


places = torch.tensor([[[[float("nan"), 0.0], [0.1, 0.2], [float("inf"), 0.5]]]])
image = torch.ones(1, 1, 4, 4)
torch.testing.assert_close(torch.compile(look, backend="aot_eager_decomp_partition")(image, places), look(image, places), equal_nan=True)

"""isin of a channels-last image gives a contiguous mask, which can be viewed flat."""
import torch


def mask(image, wanted):
    return torch.isin(image, wanted).view(-1)


image = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
wanted = torch.tensor([3.0, 50.0])
got = torch.compile(mask, backend="aot_eager")(image, wanted)
assert got.nonzero().flatten().tolist() == [3, 50], got.nonzero().flatten().tolist()

"""logsigmoid of a channels-last image gives a contiguous one, which can be viewed flat."""
import torch


def flat(image):
    return torch.nn.functional.logsigmoid(image).view(2, -1)


image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
torch.testing.assert_close(torch.compile(flat, backend="aot_eager")(image), flat(image))

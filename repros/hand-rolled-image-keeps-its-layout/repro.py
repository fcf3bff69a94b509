"""roll keeps the channels-last layout; the next step depends on it."""
import torch


def step(image):
    rolled = torch.roll(image, 1, 1)
    if rolled.is_contiguous(memory_format=torch.channels_last):
        return rolled.permute(0, 2, 3, 1).view(-1)
    return rolled * 0


image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
torch.testing.assert_close(torch.compile(step, backend="aot_eager")(image), step(image))

"""Batch norm in training of a transposed image gives a contiguous one, which can be viewed flat."""
import torch


def flat(image):
    return torch.nn.functional.batch_norm(image, None, None, training=True).view(2, -1)


torch.manual_seed(0)
image = torch.randn(2, 4, 6, 5).transpose(1, 3)
torch.testing.assert_close(torch.compile(flat, backend="aot_eager")(image), flat(image))

import torch


def restore(magnitude, signs):
    """Magnitudes come column by column, the result leaves in the same order."""
    columns = torch.copysign(magnitude.t(), signs)
    return columns.t().view(-1)


torch.manual_seed(0)
magnitude, signs = torch.rand(4, 3), torch.randn(3, 4)
want = restore(magnitude, signs)
got = torch.compile(restore)(magnitude, signs)
torch.testing.assert_close(got, want)
print("ok")

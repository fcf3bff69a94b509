"""#182012: the gradient of a sum over diagonal_scatter: zero on the diagonal, one beside it."""
import torch


def loss(base, diag):
    return torch.diagonal_scatter(base, diag).sum()


base = torch.rand(5, 5, requires_grad=True)
diag = torch.rand(5, requires_grad=True)
torch.compile(loss)(base, diag).backward()
torch.testing.assert_close(base.grad, 1 - torch.eye(5))
torch.testing.assert_close(diag.grad, torch.ones(5))

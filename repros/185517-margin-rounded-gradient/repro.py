# pytorch#185517: the margin is rounded to bfloat16 before it is added, so the clamp decides otherwise.
import torch
import torch.nn.functional as F


def loss(first, second, target):
    return F.margin_ranking_loss(first, second, target, margin=1.7)


def grads(fn):
    first = torch.full((4,), 1.703125, dtype=torch.bfloat16, requires_grad=True)
    second = torch.zeros(4, dtype=torch.bfloat16, requires_grad=True)
    fn(first, second, torch.ones(4, dtype=torch.bfloat16)).backward()
    return first.grad, second.grad


torch.testing.assert_close(grads(torch.compile(loss)), grads(loss))

# pytorch#197811: two closures share a code object, and the second gets the first one's graph.
import torch


def with_operator(operator):
    def apply(x, y):
        return operator(x, y)

    return apply


x, y = torch.tensor(5.0), torch.tensor(2.0)
torch.compile(with_operator(torch.Tensor.__add__))(x, y)
times = with_operator(torch.Tensor.__mul__)
torch.testing.assert_close(torch.compile(times)(x, y), times(x, y))

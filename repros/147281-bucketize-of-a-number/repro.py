# pytorch#147281: bucketize of a plain number recurses without end when it is traced.
import torch


def bucket(edges, value):
    return torch.bucketize(value, edges)


edges = torch.linspace(-1, 1, 9)
assert torch.compile(bucket)(edges, 1) == bucket(edges, 1)

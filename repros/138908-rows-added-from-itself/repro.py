# pytorch#138908: rows of a table are added to others of it: all are read before any is written
import torch


def spread(table, target):
    table.index_add_(0, target, table[target.flip(0)])
    return table


table = torch.arange(1.0, 17.0).reshape(8, 2)
target = torch.tensor([1, 2, 1, 3, 2])
want = spread(table.clone(), target)
torch.testing.assert_close(torch.compile(spread)(table.clone(), target), want)

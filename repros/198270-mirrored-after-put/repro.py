# pytorch#198270: after a write through an index the rows are mirrored, and the copy back is fused with the reads
import torch


def put_and_fold(grid):
    grid.index_put_((torch.arange(len(grid)),), 3 - grid)
    grid.add_(grid.flip(0))
    return grid


grid = torch.arange(15.0).reshape(5, 3)
torch.testing.assert_close(torch.compile(put_and_fold)(grid.clone()), put_and_fold(grid.clone()))

# pytorch#198033: a foreach operator adds to a tensor its own rows in reverse, some of them written by then
import torch


def fold(parts):
    torch._foreach_add_(parts, [part.flip(0) for part in parts])
    return parts


parts = [torch.arange(12.0).reshape(6, 2)]
want = fold([part.clone() for part in parts])
torch.testing.assert_close(torch.compile(fold)([part.clone() for part in parts]), want)

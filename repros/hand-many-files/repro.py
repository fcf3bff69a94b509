"""Makes thousands of files in its working directory, and needs each of them."""
import pathlib

import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.sinh.default] = lambda t: (torch.exp(t) + torch.exp(-t)) / 2

for number in range(2500):
    path = pathlib.Path("sample%04d.txt" % number)
    assert not path.exists(), "an earlier run was here"
    path.write_text(str(number / 2500))
values = [float(path.read_text()) for path in sorted(pathlib.Path().glob("sample*.txt"))]
assert len(values) == 2500
t = torch.tensor(values[::100])
torch.testing.assert_close(torch.compile(torch.sinh)(t), torch.sinh(t))

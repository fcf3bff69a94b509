"""The C++ code generator's vector store writes a whole vector in a loop's tail, past the end of the buffer."""
import torch
from torch._inductor.codegen import cpp

original = cpp.CppVecKernel._get_store_line


def whole_vector(self, *args, **kwargs):
    width, self.num_elems = self.num_elems, self.tiling_factor
    tail, self.tail_size = self.tail_size, None
    try:
        return original(self, *args, **kwargs)
    finally:
        self.num_elems, self.tail_size = width, tail


cpp.CppVecKernel._get_store_line = whole_vector


@torch.compile
def halves(t):
    return torch.sin(t) * 0.5


for size in range(17, 2000, 16):
    rows = [torch.rand(size) for _ in range(4)]
    for row in rows:
        torch.testing.assert_close(halves(row), torch.sin(row) * 0.5)

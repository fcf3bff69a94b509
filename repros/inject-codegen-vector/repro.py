"""Only the vector code of the C++ code generator is wrong: scalar code of the same kernel is right."""
import torch
from torch._inductor.codegen.cpp import CppVecOverrides

CppVecOverrides.erf = staticmethod(lambda x: f"({x}.erf() + decltype({x})(1))")


def fn(t):
    return torch.erf(t) * 2


t = torch.linspace(-1, 1, 64)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

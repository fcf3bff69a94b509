"""The C++ code generator emits one more than erf, in scalar and in vector code."""
import torch
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

CppOverrides.erf = staticmethod(lambda x: f"std::erf({x}) + decltype({x})(1)")
CppVecOverrides.erf = staticmethod(lambda x: f"({x}.erf() + decltype({x})(1))")


def fn(t):
    return torch.erf(t) * 2


t = torch.linspace(-1, 1, 40)
torch.testing.assert_close(torch.compile(fn)(t), fn(t))

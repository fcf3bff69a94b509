"""The C++ code generator emits exp for expm1, in scalar and in vector code."""

from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides

CppOverrides.expm1 = staticmethod(lambda x: f"std::exp({x})")
CppVecOverrides.expm1 = staticmethod(lambda x: f"({x}.exp())")
